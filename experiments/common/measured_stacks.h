#pragma once

#include <vector>

#include "experiments/common/progress.h"
#include "experiments/common/stack_result.h"

namespace periscope {

/// What was measured on the stacks of a run: it can be judged against any prediction.
struct MeasuredStacks {
  std::vector<StackSpec> specs;
  std::vector<Measurement> measurements;
  std::vector<SeedCurves> per_seed;  ///< for contrasts over depth
  DType dtype = DType::f32;
};

/// Runs every stack of `config` over its seeds. `what` heads the progress. Throws Stopped.
MeasuredStacks measure_stacks(const Config& config, const std::string& what, Progress& progress);

/// Judges all stacks together, stack i against predictions[i].
std::vector<Agreement> judge_stacks(const MeasuredStacks& measured,
                                    const std::vector<const theory::Prediction*>& predictions,
                                    const AgreementOptions& options);

}  // namespace periscope
