#include "experiments/results/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "sim/files/mapped_file.h"

namespace periscope {
namespace {

/// SHA-256 of what `next(buffer)` puts into the buffer, until that is nothing.
template <class Next>
std::string sha256(Next next) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  for (std::string_view part = next(); !part.empty(); part = next()) {
    EVP_DigestUpdate(context.get(), part.data(), part.size());
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &length);
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace

std::string sha256_hex(const std::string& text) {
  return sha256([rest = std::string_view(text)]() mutable { return std::exchange(rest, {}); });
}

std::string sha256_of(const MappedFile& file) {
  constexpr std::size_t piece_bytes = 1U << 20U;
  std::size_t done = 0;
  std::span<const std::byte> piece;
  return sha256([&] {
    file.release(piece);  // which is hashed
    file.check_unchanged();
    piece = file.bytes().subspan(done, std::min(piece_bytes, file.bytes().size() - done));
    done += piece.size();
    return std::string_view(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
}

std::string sha256_of_file(const std::string& path) { return sha256_of(MappedFile(path)); }

}  // namespace periscope
