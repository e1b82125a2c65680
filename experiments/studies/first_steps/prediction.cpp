#include "experiments/studies/first_steps/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <tuple>

#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/parts.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/theory_override.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope {

namespace theory {

static auto parts(StepReading& s) {
  return std::tie(s.second_moment, s.coherent, s.branch_cosine, s.branch_second_moment, s.loss, s.update, s.kept_share,
                  s.turned_sublayer, s.change, s.loss_change, s.left_out, s.gains);
}
static auto parts(FirstSteps& p) { return std::tie(p.refusal, p.steps, p.holds_until, p.stopped_by); }

}  // namespace theory

namespace first_steps {
namespace {

theory::FirstStepsSizes sizes_of(const FirstStepsConfig& config) {
  const double tokens = config.base.input.tokens;
  return {.steps = 1.0 * config.train.steps,
          .batch = config.train.batch * tokens,
          .held_out = config.train.record_sequences * tokens};
}

/// The predicted numbers that a verdict compares, as bit patterns, so that NaN equals NaN.
std::vector<std::uint64_t> foretold(const FirstStepsConfig& config, const StackSpec& spec,
                                    const theory::FirstStepsInput& input, theory::StepFault fault) {
  constexpr int few_neurons = 32;
  theory::FirstStepsOptions options = prediction_options(config);
  options.neurons = std::min(options.neurons, few_neurons);
  options.chains = 2;
  options.fault = fault;
  const theory::FirstSteps prediction = theory::predict_first_steps(spec, input, options);
  std::vector<std::uint64_t> patterns;
  const auto add = [&](const Curve& curve) {
    for (const double x : curve.value) patterns.push_back(std::bit_cast<std::uint64_t>(x));
  };
  for (const theory::StepReading& step : prediction.steps) {
    add(step.second_moment);
    add(step.branch_cosine);
    add(step.loss);
    for (const auto& [weight, curve] : step.update) add(curve);
  }
  return patterns;
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

int predicted_runs(const FirstStepsConfig& config) { return std::min(config.chains, config.run.seeds); }

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

theory::FirstStepsOptions prediction_options(const FirstStepsConfig& config) {
  return {.neurons = config.neurons,
          .chains = config.chains,
          .seed = config.run.seed,
          .fault = config.fault,
          .on_share = {}};
}

theory::FirstSteps predict(const FirstStepsConfig& config, const StackSpec& told, const theory::FirstStepsInput& input,
                           const std::string& label, stacks::Progress& progress) {
  const auto task = [&] {
    return cache::task_name("first-steps", fmt::format("{} {} {} {}", label, config.run.seed, config.run.seeds,
                                                       config::json_text(config::resolved_json(told))));
  };
  return stacks::cached(progress, label + ": theory", task, [&] {
    theory::FirstStepsOptions options = prediction_options(config);
    options.on_share = progress.on_share();
    return theory::predict_first_steps(told, input, options);
  });
}

void require_override_is_seen(const FirstStepsConfig& config, const theory::FirstStepsInput& input) {
  if (config.fault == theory::StepFault::none && !config::theory_is_misled(config)) return;
  // What changes the prediction of a long training changes that of its first steps.
  constexpr std::size_t most_steps = 3;
  theory::FirstStepsInput first = input;
  first.runs.resize(1);
  const std::size_t steps = std::min(first.optimizer.rates.size(), most_steps);
  first.optimizer.rates.resize(steps);
  for (auto* batches : {&first.runs.front().inputs, &first.runs.front().labels}) batches->resize(steps);
  const std::vector<StackSpec> measured = config.stacks();
  const std::vector<StackSpec> told = config.predicted_stacks();
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (foretold(config, measured[i], first, theory::StepFault::none) !=
        foretold(config, told[i], first, config.fault)) {
      return;
    }
  }
  std::string words;
  for (const std::string& setting : config.theory_settings) {
    words += fmt::format("{}--theory-set {}", words.empty() ? "" : ", ", shortened(setting));
  }
  if (words.empty()) words = fmt::format("first_steps.fault = {}", name_of(config.fault));
  throw ConfigError(fmt::format(
      "{}: expected something that changes what first-steps compares with what it measured; nothing does", words));
}

stacks::MemoryEstimate prediction_memory(const FirstStepsConfig& config) {
  const theory::FirstStepsSizes sizes = sizes_of(config);
  theory::FirstStepsBytes most;
  for (const StackSpec& told : config.predicted_stacks()) {
    const theory::FirstStepsBytes bytes = theory::first_steps_bytes(told, sizes, prediction_options(config));
    const auto all = [](const theory::FirstStepsBytes& b) { return b.kernels + b.samples + b.classes; };
    if (all(bytes) > all(most)) most = bytes;
  }
  // Which of the numbers of tokens is the one to lower.
  const bool held = sizes.held_out > sizes.steps * sizes.batch;
  const std::string_view tokens = held                                      ? "train.record_sequences"
                                  : config.train.steps > config.train.batch ? "train.steps"
                                                                            : "train.batch";
  stacks::MemoryEstimate memory;
  memory.add(most.kernels, tokens);
  memory.add(most.samples, "first_steps.neurons");
  memory.add(most.classes, "model.vocab");
  memory.add(2.0 * sizeof(int) * sizes.batch * sizes.steps * predicted_runs(config), tokens);
  return memory;
}

StatedError stated_error(const StackSpec& spec) {
  const double width = spec.model.width;
  return {.change = 8.0 / width, .cosine = 3.0 / width, .update = 8.0 / width};
}

}  // namespace first_steps

}  // namespace periscope
