#include "experiments/app/shipped_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "sim/base/error.h"

namespace periscope::app {

std::string shipped_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return path;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = program.parent_path().parent_path() / path;
  if (!error && std::filesystem::is_regular_file(beside, error)) return beside.string();
  const std::filesystem::path installed =
      program.parent_path().parent_path() / "share/periscope/configs" / std::filesystem::path(path).filename();
  if (path.starts_with("experiments/configs/") && std::filesystem::is_regular_file(installed, error)) {
    return installed.string();
  }
  throw ConfigError(fmt::format(
      "--config: {} is neither in the working directory nor beside the program's folder; expected a configuration",
      path));
}

}  // namespace periscope::app
