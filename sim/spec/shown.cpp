#include "sim/spec/shown.h"

#include <fmt/format.h>

#include <cstddef>

namespace periscope {
namespace {

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
}

/// Bytes of the UTF-8 character that `text` begins with, 0 if it begins with none or with a control character. The
/// control characters beyond ASCII, U+0080 to U+009F, move a terminal's cursor just as the others do.
std::size_t printable_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80U) return first >= 0x20U && first != 0x7fU ? 1 : 0;
  const std::size_t length = first >= 0xc2U && first < 0xe0U    ? 2
                             : first >= 0xe0U && first < 0xf0U  ? 3
                             : first >= 0xf0U && first <= 0xf4U ? 4
                                                                : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text, i)) return 0;
  }
  if (length == 0) return 0;
  const unsigned second = byte(1);
  // Longer forms than needed, surrogates and what is beyond U+10FFFF are no UTF-8.
  const bool wrong = (first == 0xe0U && second < 0xa0U) || (first == 0xedU && second > 0x9fU) ||
                     (first == 0xf0U && second < 0x90U) || (first == 0xf4U && second > 0x8fU) ||
                     (first == 0xc2U && second < 0xa0U);
  return wrong ? 0 : length;
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 200;
  const std::size_t bytes = text.size();
  std::string line;
  while (!text.empty() && bytes - text.size() < longest) {
    const std::size_t printable = printable_bytes(text);
    line += printable > 0 ? std::string(text.substr(0, printable))
                          : fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    text.remove_prefix(printable > 0 ? printable : 1);
  }
  if (!text.empty()) line += fmt::format(" … ({} bytes)", bytes);
  return line;
}

}  // namespace periscope
