#include "sim/train/corpus.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "sim/base/error.h"
#include "sim/train/synthetic_language.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

namespace fs = std::filesystem;

/// Returns the bytes first, first + 1, …
std::string counting(int count, int first = 0) {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  std::iota(bytes.begin(), bytes.end(), static_cast<char>(first));
  return bytes;
}

std::string text_of(std::span<const std::uint8_t> tokens) { return {tokens.begin(), tokens.end()}; }

/// Returns the message of the InputError, or "" without an error.
std::string rejection(const std::string& path, double validation = 0.5, int window = 2, int vocab = 256) {
  try {
    const Corpus corpus(path, validation, window, vocab);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("corpus: files of a folder are read recursively in the order of their paths") {
  const TemporaryFolder folder;
  folder.write("c.txt", "six");
  folder.write("b/2.txt", "four");
  folder.write("b/1.txt", "three");
  folder.write("b/1/a.txt", "two");
  folder.write("a.txt", "one");
  folder.write("b/empty.txt", "");
  fs::create_directories(folder.path("b/nothing"));
  // '/' sorts after '.', so b/1/a.txt follows b/1.txt.
  CHECK(text_of(Corpus(folder.path(), 0.1, 1, 256).tokens()) == "onethreetwofoursix");
}

TEST_CASE("corpus: links to files are read, links to folders ignored, dangling links rejected") {
  const TemporaryFolder folder;
  folder.write("corpus/a.txt", "abcd");
  folder.write("other/b.txt", "efgh");
  fs::create_symlink(folder.path("other/b.txt"), folder.path("corpus/b.txt"));
  fs::create_directory_symlink(folder.path("other"), folder.path("corpus/c"));
  CHECK(text_of(Corpus(folder.path("corpus"), 0.5, 2, 256).tokens()) == "abcdefgh");
  fs::create_symlink(folder.path("nowhere"), folder.path("corpus/d"));
  CHECK(rejection(folder.path("corpus")).find(folder.path("corpus/d")) != std::string::npos);
}

TEST_CASE("corpus: the validation split is the tail of the bytes") {
  const TemporaryFolder folder;
  const Corpus corpus(folder.write("text", counting(200)), 0.13, 5, 256);
  CHECK(text_of(corpus.training()) == counting(174));
  CHECK(text_of(corpus.validation()) == counting(26, 174));
  CHECK_FALSE(corpus.loss_floor(4).has_value());
}

TEST_CASE("training batches: every window of the training split is equally frequent") {
  const TemporaryFolder folder;
  const Corpus corpus(folder.write("text", counting(40)), 0.25, 6, 256);
  constexpr int batch = 50;
  constexpr int steps = 500;
  std::vector<int> found(25, 0);  // 30 training bytes have 25 windows of 6
  for (int step = 1; step <= steps; ++step) {
    const Windows windows = training_batch(corpus, 6, batch, 7, step);
    REQUIRE(windows.count() == batch);
    for (int w = 0; w < batch; ++w) {
      const int first = windows.tokens[static_cast<std::size_t>(6 * w)];
      REQUIRE(first < 25);
      ++found[static_cast<std::size_t>(first)];
      for (int i = 1; i < 6; ++i) CHECK(windows.tokens[static_cast<std::size_t>(6 * w + i)] == first + i);
    }
  }
  // Expected count 1000, standard deviation 31.
  for (const int times : found) CHECK(std::abs(times - 1000) < 5 * 31);
}

TEST_CASE("training batches: depend only on seed and step") {
  const TemporaryFolder folder;
  const Corpus corpus(folder.write("text", counting(250)), 0.2, 3, 256);
  const auto batch = [&](int count, std::uint64_t seed, int step) {
    return training_batch(corpus, 3, count, seed, step).tokens;
  };
  const std::vector<int> first = batch(8, 1, 2);
  (void)batch(5, 9, 9);
  CHECK(batch(8, 1, 2) == first);
  const std::set<std::vector<int>> others{batch(8, 2, 1), batch(8, 1, 1), batch(8, 1, 3), batch(8, 2, 2), first};
  CHECK(others.size() == 5);
  const std::vector<int> larger = batch(16, 1, 2);
  CHECK(std::equal(first.begin(), first.end(), larger.begin()));
}

TEST_CASE("held-out windows: evenly spaced over the validation split; inputs and labels are shifted by one") {
  const TemporaryFolder folder;
  const Corpus corpus(folder.write("text", counting(200)), 0.1, 5, 256);  // validation: 180 … 199
  const auto firsts = [&](int count) {
    const Windows windows = held_out(corpus, 5, count);
    std::vector<int> all;
    for (int w = 0; w < windows.count(); ++w) {
      all.push_back(windows.tokens[static_cast<std::size_t>(5 * w)]);
      CHECK(windows.tokens[static_cast<std::size_t>(5 * w + 4)] == all.back() + 4);
    }
    return all;
  };
  CHECK(firsts(4) == std::vector{180, 185, 190, 195});
  CHECK(firsts(1) == std::vector{180});
  CHECK(held_out(corpus, 5, 4).inputs(1, 1) == std::vector{185, 186, 187, 188});
  CHECK(held_out(corpus, 5, 4).labels(2, 1) == std::vector{191, 192, 193, 194});
  CHECK(firsts(16).front() == 180);
  CHECK(firsts(16).back() == 195);
}

TEST_CASE("corpus: short splits, bytes outside the vocabulary, unreadable and large files are rejected by name") {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", counting(20));
  const std::string bytes = folder.path("bytes");
  folder.write("bytes/a", "abcdefgh");
  const std::string odd = folder.write("bytes/b", std::string("ab\xc3\xa9zzzz"));
  const std::string fifo = folder.path("special/fifo");
  folder.write("special/a", counting(100));
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  fs::create_directories(folder.path("nothing/at/all"));
  const std::string sparse = folder.write("sparse", "");
  fs::resize_file(sparse, Corpus::max_bytes + 1);
  struct Row {
    std::string path, part;  ///< part of the message; empty for an accepted corpus
    double validation = 0.5;
    int window = 2, vocab = 256;
  };
  const Row rows[] = {
      {text, "", 0.5, 10},
      {text, text, 0.5, 11},
      {text, "input.tokens", 0.5, 11},
      {text, "", 0.25, 5},
      {text, text, 0.25, 6},
      {text, "", 0.75, 5},
      {text, text, 0.75, 6},
      {folder.write("empty", ""), "empty"},
      {bytes, ""},
      {bytes, "", 0.5, 2, 0xc4},
      {bytes, odd + ": byte 195 at offset 2", 0.5, 2, 0xc3},
      {fifo, fifo},
      {folder.path("special"), fifo},
      {"/dev/zero", "/dev/zero"},
      {folder.path("missing"), folder.path("missing")},
      {folder.path("nothing"), folder.path("nothing")},
      {sparse, "2147483647"},
  };
  for (const Row& row : rows) {
    INFO("row.path := ", row.path, ", row.part := ", row.part);
    const std::string message = rejection(row.path, row.validation, row.window, row.vocab);
    CHECK(message.empty() == row.part.empty());
    CHECK(message.find(row.part) != std::string::npos);
  }
}

TEST_CASE("corpus: \"synthetic\" gives the text of the synthetic language and its loss floor") {
  const Corpus corpus("synthetic", 0.1, 9, SyntheticLanguage::symbols);
  const std::vector<std::uint8_t> text = SyntheticLanguage().text(1000);
  CHECK(std::ranges::equal(corpus.tokens().first(1000), text));
  REQUIRE(corpus.loss_floor(8).has_value());
  CHECK(*corpus.loss_floor(8) == SyntheticLanguage().loss_floor(8));
  CHECK(rejection("synthetic", 0.1, 9, SyntheticLanguage::symbols - 1).find("model.vocab") != std::string::npos);
}

}  // namespace
}  // namespace periscope::testing
