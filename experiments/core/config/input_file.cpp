#include "experiments/core/config/input_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "experiments/core/config/sha256.h"
#include "sim/base/error.h"
#include "sim/files/mapped_file.h"

namespace periscope::config {
namespace {

std::unique_ptr<const InputFile> read(const std::string& path) {
  const MappedFile file(path);
  const auto* bytes = reinterpret_cast<const char*>(file.bytes().data());
  InputFile read{.head = std::string(bytes, std::min(file.bytes().size(), InputFile::most)),
                 .size = file.bytes().size(),
                 .sha256 = sha256_of(file)};
  file.check_unchanged();  // between the bytes and their hash
  return std::make_unique<const InputFile>(std::move(read));
}

}  // namespace

const InputFile& input_file(const std::string& path, const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const InputFile>> files;
  const std::lock_guard lock(mutex);
  auto& file = files[path];
  try {
    if (file == nullptr) file = read(path);
  } catch (const InputError& error) {
    if (name.empty()) throw;
    throw InputError(fmt::format("{} {}", name, error.what()));
  }
  return *file;
}

}  // namespace periscope::config
