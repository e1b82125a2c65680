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

/// Returns the level called `wanted`, or, if that is empty, the most demanding one that a processor of level
/// `processor` has. Throws ConfigError for a name that `levels` does not have, and for a level that the processor does
/// not have.
const CpuLevel& chosen_level(std::string_view wanted, std::span<const CpuLevel> levels, int processor);

/// Returns the level with which this process computes: the environment's PERISCOPE_INSTRUCTIONS when it is first asked
/// for, or else the best. Throws ConfigError as chosen_level does.
const CpuLevel& cpu_level();

}  // namespace periscope
