#pragma once

namespace periscope {

/// Returns the highest x86-64 psABI level (1 … 4) that this processor and the operating system support; 0 on other
/// architectures. Safe to call on any processor and before static initialization.
int processor_level() noexcept;

}  // namespace periscope
