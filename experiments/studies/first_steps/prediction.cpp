#include "experiments/studies/first_steps/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/override_effect.h"
#include "experiments/engine/settings/json_text.h"

namespace periscope {

namespace theory {

static auto parts(StepReading& s) {
  return std::tie(s.second_moment, s.coherent, s.branch_cosine, s.branch_second_moment, s.loss, s.update,
                  s.input_correlation, s.least_correlated, s.change, s.loss_change, s.neglected, s.gain_drift);
}
static auto parts(FirstSteps& p) { return std::tie(p.unsupported, p.steps, p.holds_until, p.stopped_by); }

}  // namespace theory

namespace first_steps {
namespace {

/// Returns the number of seeds whose batches the prediction uses: all, or with predict_only at most one per replicate.
int predicted_runs(const FirstStepsConfig& config) { return std::min(config.replicates, config.run.seeds); }

theory::FirstStepsOptions prediction_options(const FirstStepsConfig& config) {
  return {.neurons = config.neurons, .replicates = config.replicates, .seed = config.run.seed, .fault = config.fault};
}

/// Returns the predicted curves that a verdict compares, serialized so that NaN equals NaN.
std::string compared_curves(const FirstStepsConfig& config, const StackSpec& spec, const theory::FirstStepsInput& input,
                            theory::StepFault fault) {
  constexpr int few_neurons = 32;
  theory::FirstStepsOptions options = prediction_options(config);
  options.neurons = std::min(options.neurons, few_neurons);
  options.replicates = 2;
  options.fault = fault;
  std::string all;
  const theory::FirstSteps prediction = theory::predict_first_steps(spec, input, options);
  for (const theory::StepReading& step : prediction.steps) {
    for (const Curve* curve : {&step.second_moment, &step.branch_cosine, &step.loss}) cache::put(all, *curve);
    cache::put(all, step.update);
  }
  return all;
}

}  // namespace

theory::OptimizerLaw optimizer_of(const TrainSpec& train) {
  theory::OptimizerLaw law{.adam = train.optimizer == OptimizerKind::adamw,
                           .rates = {},
                           .beta1 = train.beta1,
                           .beta2 = train.beta2,
                           .eps = train.eps,
                           .momentum = train.momentum,
                           .weight_decay = train.weight_decay,
                           .clip = train.clip};
  for (int step = 1; step <= train.steps; ++step) law.rates.push_back(learning_rate(train, step));
  return law;
}

theory::FirstStepsInput prediction_input(const FirstStepsConfig& config, const Corpus& corpus) {
  const TrainSpec& train = config.train;
  const int length = config.base.input.tokens + 1;
  theory::FirstStepsInput input{.runs = {}, .ids = {}, .labels = {}, .optimizer = optimizer_of(train)};
  for (int s = 0; s < predicted_runs(config); ++s) {
    theory::TrainingBatches& run = input.runs.emplace_back();
    for (int step = 1; step <= train.steps; ++step) {
      const Windows batch =
          training_batch(corpus, length, train.batch, config.run.seed + static_cast<std::uint64_t>(s), step);
      run.inputs.push_back(batch.inputs(0, batch.count()));
      run.labels.push_back(batch.labels(0, batch.count()));
    }
  }
  const Windows windows = held_out(corpus, length, train.record_sequences);
  input.ids = windows.inputs(0, windows.count());
  input.labels = windows.labels(0, windows.count());
  return input;
}

theory::FirstSteps predict(const FirstStepsConfig& config, const StackSpec& overridden,
                           const theory::FirstStepsInput& input, const std::string& label, stacks::Progress& progress) {
  const auto task = [&] {
    return cache::task_name("first-steps", fmt::format("{} {} {} {}", label, config.run.seed, config.run.seeds,
                                                       config::json_text(config::resolved_json(overridden))));
  };
  return stacks::cached(progress, label + ": theory", task, [&] {
    theory::FirstStepsOptions options = prediction_options(config);
    options.on_progress = progress.on_progress();
    return theory::predict_first_steps(overridden, input, options);
  });
}

void require_effective_override(const FirstStepsConfig& config, const theory::FirstStepsInput& input) {
  // An override that changes a long prediction also changes its first steps.
  constexpr std::size_t most_steps = 3;
  theory::FirstStepsInput first = input;
  first.runs.resize(1);
  const std::size_t steps = std::min(first.optimizer.rates.size(), most_steps);
  first.optimizer.rates.resize(steps);
  for (auto* batches : {&first.runs.front().inputs, &first.runs.front().labels}) batches->resize(steps);
  stacks::require_change(config, "first-steps", fault_of(config),
                         [&](const StackSpec& measured, const StackSpec& overridden) {
                           return compared_curves(config, measured, first, theory::StepFault::none) !=
                                  compared_curves(config, overridden, first, config.fault);
                         });
}

stacks::MemoryEstimate prediction_memory(const FirstStepsConfig& config) {
  const double length = config.base.input.tokens;
  const theory::FirstStepsSizes sizes{.steps = 1.0 * config.train.steps,
                                      .batch = config.train.batch * length,
                                      .held_out = config.train.record_sequences * length};
  // The key that determines the number of tokens.
  const bool is_held_out = sizes.held_out > sizes.steps * sizes.batch;
  const std::string_view tokens = is_held_out                               ? "train.record_sequences"
                                  : config.train.steps > config.train.batch ? "train.steps"
                                                                            : "train.batch";
  stacks::MemoryEstimate memory;
  for (const StackSpec& overridden : config.predicted_stacks()) {
    const theory::FirstStepsBytes bytes = theory::first_steps_bytes(overridden, sizes, prediction_options(config));
    stacks::MemoryEstimate one;
    one.add(bytes.kernels, tokens);
    one.add(bytes.samples, "first_steps.neurons");
    one.add(bytes.classes, "model.vocab");
    memory.add_phase(one);
  }
  memory.add(2.0 * sizeof(int) * sizes.batch * sizes.steps * predicted_runs(config), tokens);
  return memory;
}

ToleratedBias tolerated_bias(const StackSpec& spec) {
  const double width = spec.model.width;
  return {.change = 8.0 / width, .cosine = 3.0 / width};
}

}  // namespace first_steps

}  // namespace periscope
