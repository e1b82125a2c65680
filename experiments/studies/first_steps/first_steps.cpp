#include "experiments/studies/first_steps/first_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "experiments/engine/judge/seed_rows.h"

namespace periscope::first_steps {
namespace {

constexpr double missing = std::numeric_limits<double>::quiet_NaN();
using Numbers = std::vector<double>;

Numbers values_at(const training::RecordedValues& record, const std::string& name, std::size_t length) {
  const auto found = record.find(name);
  return found == record.end() || found->second.size() != length ? Numbers(length, missing) : found->second;
}

/// Returns the cosine of branch b and stream x from the terms of the growth identity (T15): α²q, β²s² and 2αβ⟨x, b⟩/D,
/// means over tokens, where q and s² are the mean squares of x and b.
Numbers cosines_of(const training::RecordedValues& record, const StackSpec& spec) {
  const auto sublayers = static_cast<std::size_t>(spec.model.sublayers());
  const Numbers stream = values_at(record, "growth_stream", sublayers);
  const Numbers branch = values_at(record, "growth_branch", sublayers);
  Numbers cosines = values_at(record, "growth_cross", sublayers);
  for (std::size_t i = 0; i < sublayers; ++i) {
    if (!std::isfinite(cosines[i])) continue;  // NaN unless one branch is added to one stream
    const SublayerRule rule = spec.model.rule(static_cast<int>(i));
    const double sign = rule.alpha * rule.beta < 0.0 ? -1.0 : 1.0;
    cosines[i] *= sign / (2.0 * std::sqrt(stream[i] * branch[i]));
  }
  return cosines;
}

theory::StepReading measured_step(const std::vector<training::TrainingHistory>& runs, const StackSpec& spec, int step) {
  using Record = training::RecordedValues;
  const std::size_t depths = spec.model.depths();
  const auto sublayers = static_cast<std::size_t>(spec.model.sublayers());
  // Averages read(record, initial record) over the runs. Skips runs without the record, and empty results.
  const auto mean = [&](const auto& read) {
    judge::SeedRows rows;
    for (const training::TrainingHistory& run : runs) {
      if (!run.records.contains(step)) continue;
      if (Numbers row = read(run.records.at(step), run.records.at(0)); !row.empty()) rows.add(std::move(row));
    }
    return rows.curve();
  };
  const auto mean_now = [&](const std::string& name, std::size_t length) {
    return mean([&](const Record& now, const Record&) { return values_at(now, name, length); });
  };
  const auto mean_change = [&](const std::string& name, std::size_t length) {
    return mean([&](const Record& now, const Record& before) {
      Numbers change = values_at(now, name, length);
      std::ranges::transform(change, values_at(before, name, length), change.begin(), std::minus());
      return change;
    });
  };
  theory::StepReading reading{
      .second_moment = mean_now("second_moment.x_out", depths),
      .branch_cosine = mean([&](const Record& now, const Record&) { return cosines_of(now, spec); }),
      .branch_second_moment = mean_now("second_moment.B_out", sublayers),
      .loss = mean_now("validation_loss", 1),
      .change = mean_change("second_moment.x_out", depths),
      .loss_change = mean_change("validation_loss", 1)};
  for (const Weight weight : layer_matrices) {
    const std::string name = fmt::format("update.{}", periscope::name_of(weight));
    const Curve update = mean([&](const Record& now, const Record&) {
      return now.contains(name) ? values_at(now, name, static_cast<std::size_t>(spec.model.layers)) : Numbers();
    });
    if (!update.value.empty()) reading.update[weight] = update;
  }
  return reading;
}

}  // namespace

std::vector<theory::StepReading> measured_steps(const std::vector<training::TrainingHistory>& runs,
                                                const StackSpec& spec, int steps, std::string& unusable) {
  std::vector<theory::StepReading> all;
  for (int step = 0; step <= steps; ++step) all.push_back(measured_step(runs, spec, step));
  for (const training::TrainingHistory& run : runs) {
    if (unusable.empty() && !run.is_finite()) {
      unusable = fmt::format("a seed diverged at step {}", run.loss.size());
    } else if (unusable.empty() && static_cast<int>(run.loss.size()) < steps) {
      unusable = fmt::format("a run stopped after {} of {} steps", run.loss.size(), steps);
    }
  }
  return all;
}

FirstStepsResult run(const FirstStepsConfig& config, const Corpus& corpus, const theory::FirstStepsInput& input,
                     const Backend& ops, training::SavedStates states, bool with_weights, stacks::Progress& progress) {
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  std::vector<training::TrainingTask> tasks;
  if (!config.predict_only) tasks = training::tasks_of(config);
  const std::size_t seeds = tasks.size() / overridden.size();
  for (std::size_t i = 0; i < tasks.size(); ++i) tasks[i].train = config.train_of(i / seeds);
  states.discards_weights = !with_weights;
  states.at_record = [&](const training::TrainingTask& task, const ResidentWeights& weights,
                         training::RecordedValues& values) { add_updates(ops, task, corpus, weights, values); };
  FirstStepsResult result;
  for (const StackSpec& spec : config.stacks()) {
    StackSteps& stack = result.stacks.emplace_back();
    stack.spec = spec;
    stack.measured.resize(static_cast<std::size_t>(config.train.steps) + 1);
    if (config.predict_only) stack.unusable = "nothing was trained (first_steps.predict_only)";
  }
  progress.begin("train", static_cast<std::int64_t>(tasks.size()) * config.train.steps);
  std::vector<training::TrainingHistory> runs;
  std::size_t done = 0;
  training::train_tasks(ops, tasks, corpus, states, progress, [&](training::TrainingResult task) {
    runs.push_back(std::move(task.history));
    if (with_weights) result.dumped = std::move(task);
    if (runs.size() < seeds) return;
    StackSteps& stack = result.stacks[done++];
    stack.seeds = static_cast<int>(seeds);
    stack.measured = measured_steps(runs, stack.spec, config.train.steps, stack.unusable);
    result.ended_early = result.ended_early || std::ranges::any_of(runs, [&](const training::TrainingHistory& one) {
                           return one.is_finite() && static_cast<int>(one.loss.size()) < config.train.steps;
                         });
    if (with_weights) result.dumped->history = std::move(runs.front());
    runs.clear();
  });
  progress.begin("theory", static_cast<std::int64_t>(overridden.size()));
  for (std::size_t i = 0; i < overridden.size(); ++i) {
    StackSteps& stack = result.stacks[i];
    theory::FirstStepsInput own = input;
    own.optimizer = optimizer_of(config.train_of(i));
    stack.prediction = predict(config, overridden[i], own, config::placement_label(stack.spec), progress);
    stack.tolerated = tolerated_bias(stack.spec);
  }
  judge_steps(result.stacks, config);
  return result;
}

}  // namespace periscope::first_steps
