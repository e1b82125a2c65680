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

/// A stack, its prediction and, if it was measured, its measurement and verdict.
struct StackResult {
  StackSpec spec;
  theory::Prediction prediction;
  std::optional<judge::Measurement> measurement;
  judge::StackVerdict judged;
};

inline bool any_disagrees(const std::vector<StackResult>& results) {
  return std::ranges::any_of(results, [](const StackResult& r) { return judge::disagrees(r.judged); });
}

/// Returns the input [T, D] of a seed before the embedding norm: Gaussian, or rows of the embedding table.
Tensor stack_input(const StackContext& context, const StackSpec& spec, DType dtype, std::uint64_t seed);

/// Returns the run options for one stack. Unless run.paired is set, the first seed is run.seed plus a hash of the
/// stack's label and kind of input.
config::RunOptions run_of(const config::Config& config, const StackSpec& spec);

/// Measures random stacks of `spec` with the seeds run.seed … run.seed + seeds − 1, in a forward pass and, with
/// run.backward, the gradients of the loss on label_ids, and returns the average. Calls `on_seed` for every reading, in
/// the order of the seeds and one at a time. Seeds are cached (over_cached_seeds).
SeedAverage measure_stack(const Backend& backend, const StackSpec& spec, const config::RunOptions& run, int seeds,
                          const std::string& label, Progress& progress,
                          const std::function<void(const Reading&)>& on_seed);

/// Returns the name under which a stack's prediction `what` is cached. It depends on all inputs. Requires read_texts.
std::string prediction_task(std::string_view what, const StackSpec& measured, const StackSpec& overridden,
                            const config::Config& config);

/// Returns options with the tolerances, first seed and planted fault of `config`.
theory::PredictionOptions prediction_options(const config::Config& config);

/// Predicts every stack of `config` as cached tasks. With `at_width`, forward statistics are predicted at the stack's
/// own widths (T25), otherwise in the limit. Gradients are always predicted in the limit. Throws Stopped.
std::vector<StackResult> predict_stacks(const config::Config& config, bool at_width, Progress& progress);

/// Returns the number of tasks of predict_stacks and, if `measures`, of measure_stacks, for Progress::begin.
std::int64_t tasks_of_stacks(const config::Config& config, bool at_width, bool measures);

/// Measures every stack over the seeds of `config`. Throws Stopped.
void measure_stacks(const config::Config& config, std::vector<StackResult>& stacks, Progress& progress);

/// Judges all stacks of a run together. Requires a measurement of every stack.
std::vector<judge::StackVerdict> judge_stacks(const config::Config& config, const std::vector<StackResult>& stacks);

/// Predicts every stack of `config` and, if `measures`, measures all stacks and judges them together.
/// theory.finite_width selects predictions at the stacks' own widths; the default is `measures`. `what` is the name of
/// the study for messages. Throws Stopped.
std::vector<StackResult> compare(const config::Config& config, const std::string& what, Progress& progress,
                                 bool measures = true);

/// Returns a report with colours: one row per stack, followed by notes, gradients and the tests that decide verdicts.
std::string verdict_table(const std::vector<StackResult>& results, double familywise_error);

}  // namespace periscope::stacks
