#include "experiments/engine/training/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::training {
namespace {

/// A folder that need not exist, without links and from the root.
std::filesystem::path place_of(const std::string& folder) {
  const std::filesystem::path at = std::filesystem::weakly_canonical(std::filesystem::absolute(folder));
  return at.has_filename() ? at : at.parent_path();
}

}  // namespace

void check_apart(const char* flag, const std::string& folder, const std::string& out, const std::string& name) {
  if (folder.empty() || out.empty()) return;
  const std::filesystem::path result = place_of(out) / (name + ".nc");
  for (std::filesystem::path at = place_of(folder); at.has_relative_path(); at = at.parent_path()) {
    if (at == result) {
      throw ConfigError(
          fmt::format("{} {}: the result file has that name; expected another folder", flag, printable(folder)));
    }
  }
}

void check_not_nested(const std::string& dump, const std::string& models) {
  if (dump.empty() || models.empty()) return;
  const std::filesystem::path a = place_of(dump);
  const std::filesystem::path b = place_of(models);
  const auto [of_a, of_b] = std::ranges::mismatch(a, b);
  if (of_a != a.end() && of_b != b.end()) return;
  throw ConfigError(fmt::format("--dump {} and --export {}: one is in the other; expected neither to be",
                                printable(dump), printable(models)));
}

}  // namespace periscope::training
