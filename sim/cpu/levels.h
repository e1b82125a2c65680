#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sim/core/backend.h"

namespace periscope {

/// The CPU's ops as compiled for one instruction set. Two levels round the last bits of sums and products differently.
struct CpuLevel {
  std::string_view name;  ///< x86-64-v3, x86-64-v4, native or generic
  int processor;          ///< the processor_level that it needs; 0 where nothing is known of it
  std::unique_ptr<Backend> (*make)();
};

/// Returns the levels of this build, the least demanding first.
std::span<const CpuLevel> cpu_levels();

/// The level called `wanted`, or, if that is empty, the best for a processor of level `processor`. Throws ConfigError
/// for an unknown name and for a level that the processor lacks.
const CpuLevel& chosen_level(std::string_view wanted, std::span<const CpuLevel> levels, int processor);

/// This process's level: PERISCOPE_INSTRUCTIONS of the environment at the first call, or else the best. Throws as
/// chosen_level.
const CpuLevel& cpu_level();

}  // namespace periscope
