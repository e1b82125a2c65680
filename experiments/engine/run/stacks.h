#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/stack_result.h"
#include "experiments/engine/settings/config.h"
#include "sim/core/backend.h"
#include "sim/measure/seed_average.h"
#include "sim/model/context.h"

namespace periscope::stacks {

/// The input [T, D] of seed `seed`, before the embedding norm: Gaussian, or rows of the embedding table.
Tensor stack_input(const StackContext& context, const StackSpec& spec, DType dtype, std::uint64_t seed);

/// The run of one stack of `config`. Unless run.paired is set, its seeds are its own: run.seed plus a number that
/// follows from the stack's label and kind of input, whatever other stacks there are.
config::RunOptions run_of(const config::Config& config, const StackSpec& spec);

/// Propagates the seeds run.seed … run.seed + seeds − 1 through fresh stacks of `spec`, with run.backward also
/// back from the loss of label_ids, and averages. Calls `on_seed` with every reading, in the order of the seeds, one at
/// a time. Readings that progress.journal() has are not measured again. Throws what a seed throws, and Stopped.
SeedAverage measure_stack(const Backend& backend, const StackSpec& spec, const config::RunOptions& run, int seeds,
                          Progress& progress, const std::function<void(const Reading&)>& on_seed);

/// Predicts every stack of `config`, measures nothing. With `at_width` forward statistics are those of the stack's own
/// widths (T25), else their limit; gradients are those of the limit either way.
/// One step of progress for every limit and every chain. Predictions that progress.journal() has are not computed again
/// if `from_journal`. Throws Stopped.
std::vector<StackResult> predict_stacks(const config::Config& config, bool at_width, Progress& progress,
                                        bool from_journal = true);

/// Returns the work of predict_stacks and, if `measures`, of measure_stacks, for Progress::begin.
Work work_of_stacks(const config::Config& config, bool at_width, bool measures);

/// The measurements of all stacks of a run, which can be judged against any prediction.
struct MeasuredStacks {
  std::vector<StackSpec> specs;
  std::vector<Measurement> measurements;
  std::vector<judge::SeedCurves> per_seed;  ///< for contrasts over depth
  DType dtype = DType::f32;
};

/// Runs every stack of `config` over its seeds, one step of progress for each. Throws Stopped.
MeasuredStacks measure_stacks(const config::Config& config, Progress& progress);

/// Judges all stacks together, stack i against predictions[i].
std::vector<judge::StackVerdict> judge_stacks(const MeasuredStacks& measured,
                                              const std::vector<const theory::Prediction*>& predictions,
                                              const config::AgreementOptions& options);

}  // namespace periscope::stacks
