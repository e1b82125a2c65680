#pragma once

#include <span>

#include "experiments/engine/settings/section.h"
#include "experiments/engine/study/study.h"

namespace periscope {

/// Every study, in the order of lists. The folders that they are in are listed in experiments/CMakeLists.txt.
std::span<const study::Study> studies();

/// Every section of a configuration file, in the order of lists: those that all studies have, then the studies' own; a
/// section within another behind it.
std::span<const config::AnySection> sections();

}  // namespace periscope
