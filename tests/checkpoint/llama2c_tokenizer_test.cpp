#include "sim/checkpoint/llama2c_tokenizer.h"

#include "tests/support/doctest.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"

namespace periscope::testing {
namespace {

using Pieces = std::vector<std::pair<std::string, float>>;
using Ids = std::vector<int>;

template <class T>
void append(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

std::string file_of(const Pieces& pieces, std::int32_t longest = 8) {
  std::string bytes;
  append(bytes, longest);
  for (const auto& [text, score] : pieces) {
    append(bytes, score);
    append(bytes, static_cast<std::int32_t>(text.size()));
    bytes += text;
  }
  return bytes;
}

Llama2cTokenizer parsed(const std::string& bytes, int vocab) {
  return {std::as_bytes(std::span(bytes.data(), bytes.size())), "tok.bin", vocab};
}

Llama2cTokenizer tokenizer_of(const Pieces& pieces) { return parsed(file_of(pieces), static_cast<int>(pieces.size())); }

std::string rejection(const std::string& bytes, int vocab) {
  try {
    (void)parsed(bytes, vocab);
  } catch (const InputError& error) {
    CHECK(error.code() == ExitCode::invalid_input);
    return error.what();
  }
  return "accepted";
}

/// Tokens: 0 <unk>, 1 begin, 2 end, then characters and merges. é has two bytes; some bytes have fallback tokens.
const Pieces small{{"<unk>", 0.0F}, {"\n<s>\n", 0.0F}, {"\n</s>\n", 0.0F}, {" ", -1.0F},    {"a", -1.0F},
                   {"b", -1.0F},    {"ab", -2.0F},     {" a", -3.0F},      {"bb", -1.5F},   {"abb", -0.5F},
                   {"é", -1.0F},    {"<0xC3>", 0.0F},  {"<0xA8>", 0.0F},   {"<0x0A>", 0.0F}};

TEST_CASE("llama2.c tokenizer: the merge with the highest score is applied first") {
  const Llama2cTokenizer t = tokenizer_of(small);
  CHECK(t.size() == 14);
  CHECK(t.encode("") == Ids{1});
  CHECK(t.encode("a") == Ids{1, 7});          // " a"
  CHECK(t.encode("ab") == Ids{1, 3, 6});      // "ab" scores higher than " a"
  CHECK(t.encode("abb") == Ids{1, 3, 9});     // "bb" first, then "a" + "bb"
  CHECK(t.encode("bbb") == Ids{1, 3, 8, 5});  // equal scores: the first pair is merged
  CHECK(t.encode("bbbb") == Ids{1, 3, 8, 8});
}

TEST_CASE("llama2.c tokenizer: multibyte characters and bytes without a piece are encoded and decoded") {
  const Llama2cTokenizer t = tokenizer_of(small);
  CHECK(t.encode("é") == Ids{1, 3, 10});
  CHECK(t.encode("è\n") == Ids{1, 3, 11, 12, 13});
  CHECK(t.encode(std::string("\xA8", 1)) == Ids{1, 3, 12});  // invalid UTF-8
  CHECK_THROWS_WITH_AS((void)t.encode("c"), doctest::Contains("<0x63>"), InputError);
  CHECK(t.decode(Ids{1, 7, 5, 10, 11, 12, 13, 2}) == "abéè\n");
  CHECK(t.decode(Ids{7, 1, 7}) == " aa");
  CHECK(t.piece(13) == "\n");
  CHECK(t.piece(7) == " a");
}

/// Merges as llama2.c does: repeatedly searches all neighbouring pairs for the best one.
Ids merged_by_full_search(const Pieces& pieces, Ids ids) {
  const auto find = [&](const std::string& text) {
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (pieces[i].first == text) return static_cast<int>(i);
    return -1;
  };
  const auto text_of = [&](int id) { return pieces[static_cast<std::size_t>(id)].first; };
  for (;;) {
    float best = -1e10F;
    int best_id = -1;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const int id = find(text_of(ids[i]) + text_of(ids[i + 1]));
      if (id >= 0 && pieces[static_cast<std::size_t>(id)].second > best) {
        best = pieces[static_cast<std::size_t>(id)].second;
        best_id = id;
        at = i;
      }
    }
    if (best_id < 0) return ids;
    ids[at] = best_id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST_CASE("llama2.c tokenizer: the merge queue gives the same tokens as a full search") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Pieces pieces{{"<unk>", 0.0F}, {"<s>", 0.0F}, {"</s>", 0.0F}, {" ", 0.0F}, {"x", 0.0F}, {"y", 0.0F}};
    while (pieces.size() < 18) {
      // Merges of existing pieces, with many equal scores.
      const std::string text =
          pieces[3 + random() % (pieces.size() - 3)].first + pieces[3 + random() % (pieces.size() - 3)].first;
      if (text.size() <= 8) pieces.emplace_back(text, -static_cast<float>(random() % 4));
    }
    std::string text;
    Ids ids{3};
    for (int i = 0; i < 40; ++i) {
      const int id = 3 + static_cast<int>(random() % 3);
      text += pieces[static_cast<std::size_t>(id)].first;
      ids.push_back(id);
    }
    Ids expected = merged_by_full_search(pieces, ids);
    expected.insert(expected.begin(), 1);
    CHECK(tokenizer_of(pieces).encode(text) == expected);
  }
}

TEST_CASE("llama2.c tokenizer: malformed files are rejected with the token's index") {
  const std::string good = file_of(small);
  CHECK(rejection(good, 14) == "accepted");
  CHECK(rejection("", 14).starts_with("malformed: tok.bin: "));
  CHECK(rejection(good, 13).find("bytes are left after 13 tokens") != std::string::npos);
  CHECK(rejection(good, 15).find("token 14 of 15, score: 0 bytes are left") != std::string::npos);
  CHECK(rejection(file_of(small, 0), 14).find("longest piece is 0") != std::string::npos);
  CHECK(rejection(file_of(small, 5), 14).find("token 2 of 14") != std::string::npos);
  CHECK(rejection(file_of({{"a", std::numeric_limits<float>::quiet_NaN()}}), 1).find("score nan") != std::string::npos);
  std::string negative = file_of({{"a", 0.0F}});
  negative.replace(8, 4, "\xff\xff\xff\xff");
  CHECK(rejection(negative, 1).find("length -1") != std::string::npos);
  for (std::size_t cut = 0; cut < good.size(); ++cut) CHECK(rejection(good.substr(0, cut), 14) != "accepted");
  CHECK(rejection(good + '\0', 14).find("1 bytes are left") != std::string::npos);
}

TEST_CASE("byte tokenizer: any byte string round-trips") {
  const ByteTokenizer t;
  const std::string text("a\0\xff", 3);
  CHECK(t.encode(text) == Ids{97, 0, 255});
  CHECK(t.decode(t.encode(text)) == text);
  CHECK(t.piece(255) == "\xff");
}

}  // namespace
}  // namespace periscope::testing
