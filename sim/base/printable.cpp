#include "sim/base/printable.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace periscope {
namespace {

/// A code point and its length in bytes, which is 0 for invalid UTF-8.
struct Character {
  std::uint32_t code;
  std::size_t bytes;
};

/// smallest_code[n] is the smallest code point that needs n bytes. UTF-8 forbids overlong encodings.
constexpr std::array<std::uint32_t, 5> smallest_code{0, 0, 0x80, 0x800, 0x10000};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf8 ? 0 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
  if (bytes == 0 || text.size() < bytes) return {0, 0};
  std::uint32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {0, 0};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < smallest_code[bytes] || surrogate || code > 0x10ffff) return {0, 0};
  return {code, bytes};
}

/// Returns true for control characters beyond ASCII: C1, bidirectional marks and overrides, line separators.
bool is_control(std::uint32_t code) {
  return (code >= 0x80 && code <= 0x9f) || code == 0x61c || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

void append_hex(std::string& out, char kind, std::uint32_t value, unsigned digits) {
  constexpr std::string_view hex = "0123456789abcdef";
  out += '\\';
  out += kind;
  while (digits-- > 0) out += hex[value >> 4 * digits & 0xfU];
}

}  // namespace

std::string printable(std::string_view text, Layout layout) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    const std::size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    const bool is_layout = layout == Layout::lines && (c.code == '\n' || c.code == '\t');
    if (c.bytes == 0 || (c.code < 0x20 && !is_layout) || c.code == 0x7f) {
      append_hex(out, 'x', static_cast<unsigned char>(text.front()), 2);
    } else if (is_control(c.code)) {
      append_hex(out, 'u', c.code, 4);
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t max_length = 200;
  if (text.size() <= max_length) return printable(text);
  std::size_t end = max_length;
  // Do not cut inside a multi-byte character.
  while (end > max_length - 4 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80) --end;
  return fmt::format("{} … ({} bytes)", printable(text.substr(0, end)), text.size());
}

}  // namespace periscope
