#include "sim/cpu/levels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"
#include "sim/base/processor.h"
#include "sim/cpu/backend.h"

namespace periscope {

const CpuLevel& chosen_level(std::string_view wanted, std::span<const CpuLevel> levels, int processor) {
  std::vector<const CpuLevel*> possible;
  for (const CpuLevel& level : levels) {
    if (level.processor <= processor) possible.push_back(&level);
  }
  if (wanted.empty() && !possible.empty()) return *possible.back();
  const auto found = std::ranges::find(possible, wanted, &CpuLevel::name);
  if (found != possible.end()) return **found;
  const bool is_known = std::ranges::find(levels, wanted, &CpuLevel::name) != levels.end();
  throw ConfigError(fmt::format("PERISCOPE_INSTRUCTIONS = \"{}\"{}: expected {}", shortened(wanted),
                                is_known ? ", unsupported by this processor" : "",
                                fmt::join(mapped(possible, &CpuLevel::name), " or ")));
}

const CpuLevel& cpu_level() {
  static const CpuLevel& level = [&]() -> const CpuLevel& {
    const char* const wanted = std::getenv("PERISCOPE_INSTRUCTIONS");
    return chosen_level(wanted == nullptr ? "" : wanted, cpu_levels(), processor_level());
  }();
  return level;
}

std::unique_ptr<Backend> make_cpu_backend() { return cpu_level().make(); }

}  // namespace periscope
