#pragma once

#include <span>

#include "experiments/core/config/section.h"

namespace periscope {

/// Every section of a configuration file, in the order of `periscope list`; a section within another behind it.
/// The sections themselves stand beside what they configure.
std::span<const AnySection> sections();

}  // namespace periscope
