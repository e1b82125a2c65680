#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace periscope {
class MappedFile;
}

namespace periscope::config {

/// Incremental SHA-256 (FIPS 180-4).
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  void add(const void* bytes, std::size_t count) { add({static_cast<const std::byte*>(bytes), count}); }
  /// Returns the digest of the bytes added so far, in hex.
  [[nodiscard]] std::string hex() const;

 private:
  static constexpr std::size_t block_size = 64;
  void take_block();

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, block_size> block_{};  // the first count_ % block_size bytes are used
  std::uint64_t count_ = 0;                    // bytes added so far
};

std::string sha256_hex(std::string_view text);
/// Returns the SHA-256 of a file in hex. Throws InputError if the file changes during the read.
std::string sha256_of(const MappedFile& file);

}  // namespace periscope::config
