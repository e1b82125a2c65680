#pragma once

#include "experiments/core/dataset/dataset.h"
#include "experiments/core/study/study.h"

namespace periscope::study {

/// Returns the origin of a result: program, version, commit, compiler, device, instruction set, the resolved
/// configuration and its SHA-256, and the values that --theory-set overrides. The names of these facts are stable.
dataset::Facts origin(const Job& job, const config::Resolved& resolved);

}  // namespace periscope::study
