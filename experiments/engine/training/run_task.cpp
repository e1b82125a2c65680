#include "experiments/engine/training/run_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "experiments/engine/run/threads.h"
#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "experiments/engine/training/state_file.h"

namespace periscope::training {
namespace {

using Clock = std::chrono::steady_clock;

std::optional<StateFile> state_of(const TrainingTask& task, const SavedStates& states) {
  if (states.folder.empty()) return std::nullopt;
  const std::string identity = config::sha256_hex(states.identity + identity_of(task));
  return StateFile(fmt::format("{}/{}-{}.safetensors", states.folder, task.name, identity.substr(0, 12)), identity);
}

bool is_finished(const TrainingTask& task, int steps, const TrainingHistory& history) {
  return steps >= task.train.steps || !history.is_finite();
}

}  // namespace

std::string identity_of(const TrainingTask& task) {
  nlohmann::ordered_json json = config::resolved_json(task.spec, true);
  json["train"] = config::section_json(train_section, task.train);
  json["train"].erase("corpus");
  json["seed"] = task.seed;
  json["dtype"] = name_of(task.dtype);
  return config::json_text(json);
}

TrainingResult run_task(const Backend& ops, const TrainingTask& task, const Corpus& corpus, const SavedStates& states,
                        stacks::Progress& progress, const FirstException& others) {
  Trainer trainer(ops, task.spec, task.train, corpus, task.seed, task.dtype);
  TrainingHistory history;
  const std::optional<StateFile> state = state_of(task, states);
  if (auto saved = state ? state->read(ops, trainer.state()) : std::nullopt) {
    progress.set_resumable(states.folder);
    history = std::move(saved->history);
    progress.cached(task.name, saved->state.steps);
    if (is_finished(task, saved->state.steps, history)) {
      return {.task = task, .history = std::move(history), .parameters = std::move(saved->state.parameters)};
    }
    trainer.restore(std::move(saved->state));
  }
  Clock::time_point next_save = Clock::now() + std::chrono::seconds(2);
  const auto save = [&](const TrainingState& now) {
    if (!state) return;
    const Clock::time_point begin = Clock::now();
    state->write(ops, now, history);
    progress.set_resumable(states.folder);
    const Clock::time_point end = Clock::now();
    next_save = end + std::max<Clock::duration>(std::chrono::seconds(10), 50 * (end - begin));
  };
  const Recorder recorder(ops, task.spec, task.train, corpus);
  const bool small = parts_of_micro_batch(task.spec, task.train, task.dtype) > 1;
  bool stop_early = false;
  const auto record_if_due = [&] {
    const int step = trainer.steps();
    if (!is_recorded(task.train, step)) return;
    if (!history.records.contains(step)) {
      const stacks::Threads threads = stacks::Threads::one_if(small);
      RecordedValues& values = history.records[step] = recorder.record(trainer.weights());
      if (states.at_record) states.at_record(task, trainer.weights(), values);
      const bool is_last = step == task.train.steps && history.is_finite();
      if (is_last && states.at_end) states.at_end(task, trainer.weights(), values);
    }
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    stop_early = !progress.recorded({.run = task.name,
                                     .placement = config::placement_label(task.spec),
                                     .seed = task.seed,
                                     .step = step,
                                     .steps = task.train.steps,
                                     .loss = history.loss.empty() ? none : history.loss.back(),
                                     .grad_norm = history.grad_norm.empty() ? none : history.grad_norm.back(),
                                     .values = &history.records.at(step)});
  };
  record_if_due();
  while (!stop_early && !is_finished(task, trainer.steps(), history)) {
    if (progress.stop_requested() || others.failed()) {
      save(trainer.state());
      throw stacks::Stopped();
    }
    history.add(trainer.step());
    record_if_due();
    if (Clock::now() >= next_save) save(trainer.state());
    progress.step(task.name);
  }
  TrainingState last = trainer.state();
  if (is_finished(task, trainer.steps(), history)) {  // a finished run is not resumed
    last.optimizer.clear();
    if (states.discards_weights) last.parameters.clear();
  }
  save(last);
  return {.task = task, .history = std::move(history), .parameters = std::move(last.parameters)};
}

}  // namespace periscope::training
