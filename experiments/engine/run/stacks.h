#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/judge/stack_verdicts.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/config.h"
#include "sim/core/backend.h"
#include "sim/measure/seed_average.h"
#include "sim/model/context.h"
#include "theory/predict/predict.h"

namespace periscope::stacks {

/// A stack, its prediction and, unless only theory was asked for, its measurement and verdict.
struct StackResult {
  StackSpec spec;
  theory::Prediction prediction;
  std::optional<judge::Measurement> measurement;
  judge::StackVerdict judged;
};

inline bool any_disagrees(const std::vector<StackResult>& results) {
  return std::ranges::any_of(results, [](const StackResult& r) { return judge::disagrees(r.judged); });
}

/// The input [T, D] of seed `seed`, before the embedding norm: Gaussian, or rows of the embedding table.
Tensor stack_input(const StackContext& context, const StackSpec& spec, DType dtype, std::uint64_t seed);

/// The run of one stack of `config`. Unless run.paired is set, its first seed is run.seed plus a number that depends on
/// the stack's label and kind of input alone.
config::RunOptions run_of(const config::Config& config, const StackSpec& spec);

/// Averages the readings of random stacks of `spec` with the seeds run.seed … run.seed + seeds − 1: of a forward pass
/// and, with run.backward, of the gradients of the loss on label_ids. Calls `on_seed` with every reading, in the order
/// of the seeds, one at a time. Seeds are cached tasks (over_cached_seeds).
SeedAverage measure_stack(const Backend& backend, const StackSpec& spec, const config::RunOptions& run, int seeds,
                          const std::string& label, Progress& progress,
                          const std::function<void(const Reading&)>& on_seed);

/// Returns the name of the task that predicts `what` of one stack of a run; it covers all that the prediction depends
/// on. Requires read_texts.
std::string prediction_task(std::string_view what, const StackSpec& measured, const StackSpec& overridden,
                            const config::Config& config);

/// Returns the tolerances, the first seed and the planted fault of `config`.
theory::PredictionOptions prediction_options(const config::Config& config);

/// Predicts every stack of `config`, as cached tasks. With `at_width` forward statistics are those of the stack's own
/// widths (T25), else their limit; gradients are those of the limit either way. Throws Stopped.
std::vector<StackResult> predict_stacks(const config::Config& config, bool at_width, Progress& progress);

/// Returns the number of tasks of predict_stacks and, if `measures`, of measure_stacks, for Progress::begin.
std::int64_t tasks_of_stacks(const config::Config& config, bool at_width, bool measures);

/// Measures every stack over the seeds of `config`. Throws Stopped.
void measure_stacks(const config::Config& config, std::vector<StackResult>& stacks, Progress& progress);

/// Judges all stacks of a run together; all are measured.
std::vector<judge::StackVerdict> judge_stacks(const config::Config& config, const std::vector<StackResult>& stacks);

/// Predicts every stack of `config` and, if it `measures`, measures it and judges all of them together. Predictions are
/// at the stacks' own widths as theory.finite_width says, by default if it measures. `what` is the study, for messages.
/// Throws Stopped.
std::vector<StackResult> compare(const config::Config& config, const std::string& what, Progress& progress,
                                 bool measures = true);

/// For people: one row per stack, and below it how the verdicts were reached. Coloured.
std::string verdict_table(const std::vector<StackResult>& results, double familywise_error);

}  // namespace periscope::stacks
