#include "experiments/results/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>

#include "sim/spec/error.h"

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

std::string sha256_of_file(const std::string& path, const std::string& name) {
  const std::string what = name.empty() ? path : name + " " + path;
  if (!std::filesystem::is_regular_file(path)) throw InputError(fmt::format("{}: no such file", what));
  std::ifstream file(path, std::ios::binary);
  std::string buffer(1U << 20U, '\0');
  const std::string hash = sha256([&] {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    return std::string_view(buffer.data(), static_cast<std::size_t>(file.gcount()));
  });
  if (!file.eof()) throw InputError(fmt::format("{}: cannot be read to its end", what));
  return hash;
}

}  // namespace periscope
