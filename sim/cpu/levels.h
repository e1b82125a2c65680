#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sim/core/backend.h"

namespace periscope {

/// The CPU ops compiled for one instruction set. Results of different levels may differ in the last bits.
struct CpuLevel {
  std::string_view name;  ///< x86-64-v3, x86-64-v4, native or generic
  int processor;          ///< the required processor_level(); 0 if unknown
  std::unique_ptr<Backend> (*make)();
};

/// Returns the levels of this build in increasing order.
std::span<const CpuLevel> cpu_levels();

/// Returns the level named `wanted`, or the best for a processor of level `processor` if `wanted` is empty. Throws
/// ConfigError for an unknown name or a level that the processor does not support.
const CpuLevel& chosen_level(std::string_view wanted, std::span<const CpuLevel> levels, int processor);

/// Returns the level of this process, fixed at the first call: the environment variable PERISCOPE_INSTRUCTIONS if set,
/// else the best level. Throws like chosen_level.
const CpuLevel& cpu_level();

}  // namespace periscope
