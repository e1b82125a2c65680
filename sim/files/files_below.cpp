#include "sim/files/files_below.h"

#include <algorithm>
#include <filesystem>

namespace periscope {

namespace fs = std::filesystem;

std::vector<std::string> files_below(const std::string& path, std::error_code& error) {
  const fs::file_status status = fs::status(path, error);
  if (error || !fs::is_directory(status)) return error ? std::vector<std::string>() : std::vector{path};
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unknown;
    if (!fs::is_directory(entry->status(unknown))) files.push_back(entry->path().string());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace periscope
