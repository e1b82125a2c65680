#include "experiments/engine/run/weights_hash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "experiments/engine/settings/sha256.h"

namespace periscope::stacks {
namespace {

std::string hash_of_memory(const SafetensorsFile& file) {
  config::Sha256 digest;
  for (const auto& [name, view] : file.tensors()) {
    const std::string words = fmt::format("{} {} {}\n", name, name_of(view.type), fmt::join(view.shape, " "));
    digest.add(words.data(), words.size());
    digest.add(view.bytes.data(), view.bytes.size());
  }
  return digest.hex();
}

}  // namespace

std::vector<NamedHash> hashes_of_files(const TensorFiles& files) {
  std::vector<NamedHash> hashes;
  for (const SafetensorsFile& file : files.files()) {
    if (file.tensors().empty()) continue;
    if (file.file().is_memory()) {
      hashes.emplace_back("tensors", hash_of_memory(file));
      continue;
    }
    hashes.emplace_back(std::filesystem::path(file.path()).filename().string(), config::sha256_of(file.file()));
  }
  return hashes;
}

}  // namespace periscope::stacks
