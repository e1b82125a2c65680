#include "experiments/engine/settings/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/files/mapped_file.h"

namespace periscope::config {
namespace {

/// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void Sha256::take_block() {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < block_size; ++i) w[i / 4] = w[i / 4] << 8U | std::to_integer<std::uint32_t>(block_[i]);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15];
    const std::uint32_t b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3U)) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10U));
  }
  std::array<std::uint32_t, 8> next = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const auto [a, b, c, d, e, f, g, h] = next;
    const std::uint32_t first =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    next = {first + second, a, b, c, d + first, e, f, g};
  }
  for (std::size_t i = 0; i < next.size(); ++i) state_[i] += next[i];
}

void Sha256::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t filled = count_ % block_size;
    const auto piece = bytes.first(std::min(block_size - filled, bytes.size()));
    std::memcpy(block_.data() + filled, piece.data(), piece.size());
    bytes = bytes.subspan(piece.size());
    count_ += piece.size();
    if (count_ % block_size == 0) take_block();
  }
}

std::string Sha256::hex() const {
  Sha256 whole = *this;
  // Padding: a one bit, zeros up to eight bytes before the end of a block, and the number of bits.
  std::array<std::byte, 2 * block_size> padding{std::byte{0x80}};
  const std::size_t filled = count_ % block_size;
  const std::size_t zeros = (filled < 56 ? 56 : 56 + block_size) - filled;
  for (std::size_t i = 0; i < 8; ++i) padding[zeros + i] = static_cast<std::byte>(count_ * 8 >> (56 - 8 * i));
  whole.add(std::span(padding).first(zeros + 8));
  std::string text;
  for (const std::uint32_t word : whole.state_) text += fmt::format("{:08x}", word);
  return text;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.add(text.data(), text.size());
  return hash.hex();
}

std::string sha256_of(const MappedFile& file) {
  constexpr std::size_t piece_bytes = 1U << 20U;
  Sha256 hash;
  for (std::span<const std::byte> rest = file.bytes(); !rest.empty();) {
    const std::span<const std::byte> piece = rest.first(std::min(piece_bytes, rest.size()));
    file.check_unchanged();
    hash.add(piece);
    file.release(piece);
    rest = rest.subspan(piece.size());
  }
  file.check_unchanged();
  return hash.hex();
}

}  // namespace periscope::config
