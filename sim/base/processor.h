#pragma once

namespace periscope {

/// Returns the highest level (1 … 4) of the x86-64 psABI all of whose instructions this processor has and the operating
/// system permits; 0 on other architectures. May be called before any static object exists, on any processor.
int processor_level() noexcept;

}  // namespace periscope
