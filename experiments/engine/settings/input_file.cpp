#include "experiments/engine/settings/input_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/files/mapped_file.h"

namespace periscope::config {
namespace {

/// What tells whether a file is still the one that was read: its number, size and times.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  std::int64_t modified = 0;  // ns
  std::int64_t changed = 0;   // ns

  bool operator==(const Identity&) const = default;
};

/// All zero for what is not there.
Identity identity_of(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return {};
  constexpr std::int64_t second = 1'000'000'000;
  return {.device = s.st_dev,
          .inode = s.st_ino,
          .size = s.st_size,
          .modified = s.st_mtim.tv_sec * second + s.st_mtim.tv_nsec,
          .changed = s.st_ctim.tv_sec * second + s.st_ctim.tv_nsec};
}

struct KeptFile {
  Identity identity;
  InputFile file;
};

std::shared_ptr<const KeptFile> read(const std::string& path) {
  const Identity identity = identity_of(path);
  const MappedFile file(path);
  const auto* bytes = reinterpret_cast<const char*>(file.bytes().data());
  KeptFile read{.identity = identity,
                .file = {.head = std::string(bytes, std::min(file.bytes().size(), InputFile::most)),
                         .size = file.bytes().size(),
                         .sha256 = sha256_of(file)}};
  file.check_unchanged();  // between the bytes and their hash
  return std::make_shared<const KeptFile>(std::move(read));
}

/// The files that were read, and how many runs may ask for them.
struct KeptFiles {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const KeptFile>> known;
  int runs = 0;
};

KeptFiles& kept_files() {
  static KeptFiles all;
  return all;
}

thread_local RunOfInputFiles* run_of_this_thread = nullptr;

}  // namespace

std::shared_ptr<const InputFile> input_file(const std::string& path, const std::string& name) {
  const std::lock_guard lock(kept_files().mutex);
  auto& known = kept_files().known[path];
  const bool is_first = run_of_this_thread != nullptr && run_of_this_thread->asks_first(path);
  try {
    if (known == nullptr) {
      known = read(path);
    } else if (is_first && identity_of(path) != known->identity) {
      throw InputError(
          fmt::format("{}: found another file than the one that a run in another thread has read; expected "
                      "it to stay until that run is over",
                      printable(path)));
    }
  } catch (const InputError& error) {
    if (name.empty()) throw;
    throw InputError(fmt::format("{} {}", name, error.what()));
  }
  return {known, &known->file};
}

RunOfInputFiles::RunOfInputFiles() {
  const std::lock_guard lock(kept_files().mutex);
  if (kept_files().runs == 0) kept_files().known.clear();
  ++kept_files().runs;
  run_of_this_thread = this;
}

RunOfInputFiles::~RunOfInputFiles() {
  const std::lock_guard lock(kept_files().mutex);
  --kept_files().runs;
  run_of_this_thread = nullptr;
}

}  // namespace periscope::config
