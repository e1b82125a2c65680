#include "experiments/engine/run/memory_estimate.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "sim/base/error.h"

namespace periscope::stacks {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

/// The number after `word` at the beginning of a line, "MemAvailable:   123 kB", of the first line if there is no word;
/// nothing for "max", and where there is no such file.
std::optional<double> number_in(const std::filesystem::path& file, std::string_view word = "") {
  std::ifstream stream(file);
  std::string line;
  while (std::getline(stream, line) && !line.starts_with(word)) continue;
  double number = 0.0;
  if (stream && std::istringstream(line.substr(word.size())) >> number) return number;
  return std::nullopt;
}

/// Returns the memory that the limits of the process's control groups still leave, in bytes: the smallest over all
/// groups from its own up to the root. Cached files do not count as used, because the system frees them when memory is
/// needed.
double left_by_groups() {
  std::ifstream groups("/proc/self/cgroup");
  double left = unlimited;
  for (std::string line; std::getline(groups, line);) {
    const bool second = line.starts_with("0::");
    const std::size_t first = line.find(":memory:");
    if (!second && first == std::string::npos) continue;
    const std::filesystem::path root = second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string own = second ? line.substr(3) : line.substr(first + std::string(":memory:").size());
    for (std::filesystem::path group = own;; group = group.parent_path()) {
      const std::filesystem::path folder = root / group.relative_path();
      const auto limit = number_in(folder / (second ? "memory.max" : "memory.limit_in_bytes"));
      const auto used = number_in(folder / (second ? "memory.current" : "memory.usage_in_bytes"));
      if (limit && used) {
        const double files = number_in(folder / "memory.stat", "inactive_file ").value_or(0.0) +
                             number_in(folder / "memory.stat", "active_file ").value_or(0.0);
        left = std::min(left, *limit - std::max(0.0, *used - files));
      }
      if (!group.has_relative_path()) break;
    }
  }
  return left;
}

/// Returns the address space that its limit still leaves, in bytes, less what further threads reserve and never use: a
/// stack and a heap of their own for each.
double left_by_limit(int threads) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  const double used = number_in("/proc/self/statm").value_or(0.0) * static_cast<double>(sysconf(_SC_PAGESIZE));
  constexpr double reserved = 72e6;
  return static_cast<double>(limit.rlim_cur) - used - reserved * (threads - 1);
}

std::string words_of_bytes(double bytes) {
  if (bytes >= 1e12) return fmt::format("{:.3g} TB", bytes / 1e12);
  if (bytes >= 1e9) return fmt::format("{:.3g} GB", bytes / 1e9);
  return fmt::format("{:.0f} MB", bytes / 1e6);
}

}  // namespace

double available_bytes(int threads) {
  const std::optional<double> machine = number_in("/proc/meminfo", "MemAvailable:");
  return std::min({machine ? 1024.0 * *machine : unlimited, left_by_groups(), left_by_limit(threads)});
}

void require_fits(const MemoryEstimate& memory, bool force, Progress& progress) {
  const int threads = omp_get_max_threads();
  const double there = std::max(0.0, available_bytes(threads));
  if (memory.bytes > there && !force) {
    throw ConfigError(
        fmt::format("this needs about {} of memory, and there is {}: expected less, by a lower {}; or "
                    "--force, to try",
                    words_of_bytes(memory.bytes), words_of_bytes(there), memory.key));
  }
  constexpr double worth_saying = 1e9;
  if (memory.bytes > worth_saying) progress.say(fmt::format("estimate: {} of memory\n", words_of_bytes(memory.bytes)));
}

OutOfMemory out_of_memory(const MemoryEstimate& memory) {
  return {ExitCode::runtime_failure, fmt::format("not enough memory: needed about {}; expected less, by a lower {}",
                                                 words_of_bytes(memory.bytes), memory.key)};
}

}  // namespace periscope::stacks
