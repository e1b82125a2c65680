#pragma once

#include <span>

#include "experiments/engine/settings/section.h"
#include "experiments/engine/study/study.h"

namespace periscope {

/// Returns all studies in display order. experiments/CMakeLists.txt lists their folders.
std::span<const study::Study> studies();

/// Returns all sections of a configuration file in display order: the common sections, then the studies' sections. A
/// nested section follows its parent.
std::span<const config::AnySection> sections();

}  // namespace periscope
