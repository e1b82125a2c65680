#include "tests/checkpoint/mutate.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>

#include "sim/base/error.h"
#include "sim/checkpoint/safetensors_view.h"
#include "tests/checkpoint/safetensors_bytes.h"

namespace periscope::testing {
namespace {

constexpr std::string_view hostile_numbers[] = {
    "0", "1", "-1", "1.0", "2e9", "null", "[]", "4294967296", "9223372036854775808", "18446744073709551615", "\"8\""};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Returns true if the tensor can be read as numbers of type T.
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
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const auto any_byte = [&] { return static_cast<char>(below(256)); };
  std::uint64_t length = 0;  // length of the header
  for (std::size_t changes = 1 + below(4); changes > 0 && !copy.empty(); --changes) {
    if (copy.size() >= sizeof(length)) std::memcpy(&length, copy.data(), sizeof(length));
    const std::size_t end_of_header = sizeof(length) + std::min<std::uint64_t>(length, copy.size());
    const std::size_t at = below(below(3) == 0 ? copy.size() : std::min(copy.size(), end_of_header));
    const auto number = std::find_if(copy.begin() + static_cast<std::ptrdiff_t>(at), copy.end(), is_digit);
    switch (below(9)) {
      case 0: copy[at] ^= static_cast<char>(1 << below(8)); break;
      case 1: copy[at] = any_byte(); break;
      case 2: copy.insert(at, 1, any_byte()); break;
      case 3: copy.erase(at, 1 + below(4)); break;
      case 4: copy.resize(below(2) == 0 ? below(copy.size()) : copy.size() - 1); break;
      case 5: copy.insert(at, copy.substr(at, 1 + below(40))); break;
      case 6:
        if (number != copy.end()) *number = static_cast<char>('0' + below(10));
        break;
      case 7:
        if (number != copy.end()) {
          copy.replace(number, std::find_if_not(number, copy.end(), is_digit),
                       hostile_numbers[below(std::size(hostile_numbers))]);
        }
        break;
      default:  // changes the length
        if (copy.size() < sizeof(length)) break;
        length = below(2) == 0 ? length + below(17) - 8 : random() >> below(64);
        std::memcpy(copy.data(), &length, sizeof(length));
    }
  }
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
