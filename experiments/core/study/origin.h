#pragma once

#include "experiments/core/dataset/dataset.h"
#include "experiments/core/study/study.h"

namespace periscope::study {

/// What a result was made from: program, version, commit, compiler, device, the resolved configuration and its SHA-256,
/// and what theory was told instead of the truth. Names are stable.
dataset::Facts origin(const Job& job, const config::Resolved& resolved);

}  // namespace periscope::study
