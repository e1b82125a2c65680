#include "tests/checkpoint/safetensors_bytes.h"

namespace periscope::testing {

std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i, length >>= 8) bytes += static_cast<char>(length & 0xff);
  return bytes;
}

std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return length_bytes(header.size()).append(header).append(data);
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace periscope::testing
