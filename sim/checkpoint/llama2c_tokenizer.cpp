#include "sim/checkpoint/llama2c_tokenizer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <queue>
#include <tuple>

#include "sim/checkpoint/file_error.h"

namespace periscope {
namespace {

/// Reads consecutive values from a file.
class Bytes {
 public:
  Bytes(std::span<const std::byte> rest, const std::string& path) : rest_(rest), path_(path) {}

  template <class T>
  T take(const std::string& field) {
    T value;
    const std::string bytes = take(sizeof(T), field);
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string take(std::size_t count, const std::string& field) {
    if (rest_.size() < count) {
      throw malformed(path_, fmt::format("{}: {} bytes are left, expected {}", field, rest_.size(), count));
    }
    std::string bytes(reinterpret_cast<const char*>(rest_.data()), count);
    rest_ = rest_.subspan(count);
    return bytes;
  }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  const std::string& path_;
};

/// Returns the byte that a piece "<0xXX>" represents, or −1 for other pieces.
int byte_of(const std::string& piece) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  const std::size_t high = digits.find(piece[3]);
  const std::size_t low = digits.find(piece[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return -1;
  return static_cast<int>(16 * high + low);
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

Llama2cTokenizer::Llama2cTokenizer(std::span<const std::byte> file, const std::string& path, int vocab) : path_(path) {
  Bytes bytes(file, path);
  const auto longest = bytes.take<std::int32_t>("the length of the longest piece");
  if (longest < 1)
    throw malformed(path, fmt::format("the length of the longest piece is {}, expected 1 or more", longest));
  for (int id = 0; id < vocab; ++id) {
    const std::string where = fmt::format("token {} of {}", id, vocab);
    const auto score = bytes.take<float>(where + ", score");
    const auto length = bytes.take<std::int32_t>(where + ", length");
    if (!std::isfinite(score))
      throw malformed(path, fmt::format("{}: score {}, expected a finite number", where, score));
    if (length < 0 || length > longest) {
      throw malformed(path, fmt::format("{}: length {}, expected 0 to the stated maximum, {}", where, length, longest));
    }
    pieces_.push_back({bytes.take(static_cast<std::size_t>(length), where), score});
    ids_.emplace(pieces_.back().text, id);
  }
  if (bytes.left() > 0) {
    throw malformed(path, fmt::format("{} bytes are left after {} tokens (the vocabulary size), expected none",
                                      bytes.left(), vocab));
  }
}

int Llama2cTokenizer::find(const std::string& text) const {
  const auto it = ids_.find(text);
  return it == ids_.end() ? -1 : it->second;
}

void Llama2cTokenizer::append(std::string_view character, std::vector<int>& ids) const {
  if (const int id = find(std::string(character)); id >= 0) {
    ids.push_back(id);
    return;
  }
  for (const char c : character) {
    const std::string name = fmt::format("<0x{:02X}>", static_cast<unsigned char>(c));
    const int id = find(name);
    if (id < 0) throw InputError(fmt::format("{}: no token for the byte {} of the text", path_, name));
    ids.push_back(id);
  }
}

std::vector<int> Llama2cTokenizer::encode(std::string_view text) const {
  std::vector<int> ids;
  if (!text.empty()) append(" ", ids);
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    while (end < text.size() && end - begin < 4 && continues_character(text[end])) ++end;
    append(text.substr(begin, end - begin), ids);
    begin = end;
  }
  ids = merged(std::move(ids));
  ids.insert(ids.begin(), begin_id);
  return ids;
}

// `joins` is ordered by highest score, then by leftmost position. A join is stale if one of its two tokens has been
// merged since. `next` and `previous` link the remaining tokens.
std::vector<int> Llama2cTokenizer::merged(std::vector<int> ids) const {
  struct Join {
    float score;
    std::size_t left, right;
    int left_id, right_id, id;
  };
  const auto worse = [](const Join& a, const Join& b) {
    return a.score < b.score || (a.score == b.score && a.left > b.left);
  };
  std::priority_queue<Join, std::vector<Join>, decltype(worse)> joins(worse);
  const std::size_t end = ids.size();
  std::vector<std::size_t> next(end);
  std::vector<std::size_t> previous(end);
  const auto offer = [&](std::size_t left, std::size_t right) {
    const int id =
        find(pieces_[static_cast<std::size_t>(ids[left])].text + pieces_[static_cast<std::size_t>(ids[right])].text);
    if (id >= 0) joins.push({pieces_[static_cast<std::size_t>(id)].score, left, right, ids[left], ids[right], id});
  };
  for (std::size_t i = 0; i < end; ++i) {
    next[i] = i + 1;
    previous[i] = i == 0 ? end : i - 1;
  }
  for (std::size_t i = 0; i + 1 < end; ++i) offer(i, i + 1);
  while (!joins.empty()) {
    const Join join = joins.top();
    joins.pop();
    if (ids[join.left] != join.left_id || ids[join.right] != join.right_id || next[join.left] != join.right) continue;
    ids[join.left] = join.id;
    ids[join.right] = -1;
    next[join.left] = next[join.right];
    if (next[join.left] != end) {
      previous[next[join.left]] = join.left;
      offer(join.left, next[join.left]);
    }
    if (previous[join.left] != end) offer(previous[join.left], join.left);
  }
  std::erase(ids, -1);
  return ids;
}

std::string Llama2cTokenizer::piece(int id) const {
  const std::string& text = pieces_.at(static_cast<std::size_t>(id)).text;
  const int byte = byte_of(text);
  return byte < 0 ? text : std::string(1, static_cast<char>(byte));
}

std::string Llama2cTokenizer::decode(std::span<const int> ids) const {
  std::string text;
  bool first = false;  // true if the previous token is begin_id
  for (const int id : ids) {
    if (id != begin_id && id != end_id) {
      const std::string next = piece(id);
      text += first && next.starts_with(' ') ? next.substr(1) : next;
    }
    first = id == begin_id;
  }
  return text;
}

}  // namespace periscope
