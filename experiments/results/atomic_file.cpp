#include "experiments/results/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "sim/spec/error.h"

namespace periscope {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(ExitCode::runtime_failure, fmt::format("cannot write {}: {}", path, why));
}

/// A file's content, or a folder's entries, reach the disk.
void sync_path(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags);
  if (descriptor < 0 || ::fsync(descriptor) != 0) {
    const int error = errno;
    if (descriptor >= 0) ::close(descriptor);
    fail(path, std::strerror(error));
  }
  ::close(descriptor);
}

}  // namespace

void write_atomically(const std::string& path, const std::function<void(const std::string& temporary)>& write) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::absolute(path).parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(path, error.message());
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  try {
    write(temporary);
    sync_path(temporary, O_RDWR);
    fs::rename(temporary, path);
  } catch (const fs::filesystem_error& e) {
    fs::remove(temporary, error);
    fail(path, e.code().message());
  } catch (...) {
    fs::remove(temporary, error);
    throw;
  }
  sync_path(folder.string(), O_RDONLY | O_DIRECTORY);
}

void write_text_file(const std::string& path, const std::string& text) {
  write_atomically(path, [&](const std::string& temporary) {
    std::ofstream file(temporary, std::ios::binary);
    file << text;
    file.close();
    if (!file) fail(path, std::strerror(errno));
  });
}

}  // namespace periscope
