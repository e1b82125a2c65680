#include "tests/checkpoint/mutate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <string_view>

#include "sim/base/error.h"
#include "sim/checkpoint/safetensors_view.h"
#include "tests/checkpoint/safetensors_bytes.h"

namespace periscope::testing {
namespace {

constexpr std::array<std::string_view, 12> hostile_numbers{"0",
                                                           "1",
                                                           "-1",
                                                           "1.0",
                                                           "2e9",
                                                           "null",
                                                           "[]",
                                                           "4294967296",
                                                           "9223372036854775808",
                                                           "18446744073709551615",
                                                           "18446744073709551616",
                                                           "\"8\""};

class Mutation {
 public:
  Mutation(std::string& bytes, std::mt19937_64& random) : bytes_(bytes), random_(random) {}

  void change_once() {
    if (bytes_.empty()) return;
    switch (below(9)) {
      case 0: bytes_[place()] ^= static_cast<char>(1 << below(8)); break;
      case 1: bytes_[place()] = any_byte(); break;
      case 2: bytes_.insert(place(), 1, any_byte()); break;
      case 3: bytes_.erase(place(), 1 + below(4)); break;
      case 4: bytes_.resize(below(2) == 0 ? below(bytes_.size()) : bytes_.size() - 1); break;
      case 5: bytes_.insert(place(), bytes_.substr(place(), 1 + below(40))); break;
      case 6: change_a_digit(); break;
      case 7: replace_a_number(); break;
      default: change_the_length(); break;
    }
  }

 private:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }
  char any_byte() { return static_cast<char>(below(256)); }

  [[nodiscard]] std::size_t end_of_header() const {
    std::uint64_t length = 0;
    if (bytes_.size() >= sizeof(length)) std::memcpy(&length, bytes_.data(), sizeof(length));
    return std::min<std::uint64_t>(bytes_.size(), sizeof(length) + std::min<std::uint64_t>(length, bytes_.size()));
  }

  std::size_t place() { return below(below(3) == 0 ? bytes_.size() : end_of_header()); }

  /// The first digit at or after a random place, or the end.
  std::size_t digit() {
    std::size_t at = place();
    while (at < bytes_.size() && std::isdigit(static_cast<unsigned char>(bytes_[at])) == 0) ++at;
    return at;
  }

  void change_a_digit() {
    if (const std::size_t at = digit(); at < bytes_.size()) bytes_[at] = static_cast<char>('0' + below(10));
  }

  void replace_a_number() {
    const std::size_t begin = digit();
    std::size_t end = begin;
    while (end < bytes_.size() && std::isdigit(static_cast<unsigned char>(bytes_[end])) != 0) ++end;
    if (end > begin) bytes_.replace(begin, end - begin, hostile_numbers[below(hostile_numbers.size())]);
  }

  void change_the_length() {
    std::uint64_t length = 0;
    if (bytes_.size() < sizeof(length)) return;
    std::memcpy(&length, bytes_.data(), sizeof(length));
    length = below(2) == 0 ? length + below(17) - 8 : random_() >> below(64);
    std::memcpy(bytes_.data(), &length, sizeof(length));
  }

  std::string& bytes_;
  std::mt19937_64& random_;
};

/// Whether the tensor can be read into numbers of this kind.
template <typename T, typename Read>
bool can_be_read(const SafetensorsView& view, Read read) {
  try {
    std::vector<T> values(count_of(view));
    read(view, "mutated", "tensor", 0, std::span<T>(values));
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

std::string mutated(const std::string& bytes, std::mt19937_64& random) {
  std::string copy = bytes;
  Mutation mutation(copy, random);
  const int changes = std::uniform_int_distribution<int>(1, 4)(random);
  for (int i = 0; i < changes; ++i) mutation.change_once();
  return copy;
}

ReadOutcome read_everything(const std::string& bytes) {
  SafetensorsContents contents;
  try {
    contents = parse_safetensors(bytes_of(bytes), "mutated");
  } catch (const InputError&) {
    return ReadOutcome::rejected;
  }
  bool all = true;
  for (const auto& [name, view] : contents.tensors) {
    const auto values = [](auto&&... arguments) { read_values(arguments...); };
    all = can_be_read<double>(view, values) && can_be_read<float>(view, values) && all;
  }
  return all ? ReadOutcome::read : ReadOutcome::rejected_when_read;
}

}  // namespace periscope::testing
