#include "experiments/engine/training/run_cell.h"

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

/// All that a cell's numbers depend on, apart from the corpus, whose path is left out, the device and the program.
std::string identity_of(const TrainCell& cell) {
  nlohmann::ordered_json json = config::resolved_json(cell.spec, true);
  json["train"] = config::section_json(train_section, cell.train);
  json["train"].erase("corpus");
  json["seed"] = cell.seed;
  json["dtype"] = name_of(cell.dtype);
  return config::json_text(json);
}

std::optional<StateFile> state_of(const TrainCell& cell, const SavedStates& states) {
  if (states.folder.empty()) return std::nullopt;
  const std::string identity = config::sha256_hex(states.identity + identity_of(cell));
  return StateFile(fmt::format("{}/{}-{}.safetensors", states.folder, cell.name, identity.substr(0, 12)), identity);
}

bool is_over(const TrainCell& cell, int steps, const CellHistory& history) {
  return steps >= cell.train.steps || !history.is_finite();
}

}  // namespace

TrainedCell run_cell(const Backend& ops, const TrainCell& cell, const Corpus& corpus, const SavedStates& states,
                     stacks::Progress& progress, const FirstException& others) {
  Trainer trainer(ops, cell.spec, cell.train, corpus, cell.seed, cell.dtype);
  CellHistory history;
  const std::optional<StateFile> state = state_of(cell, states);
  if (auto kept = state ? state->read(ops, trainer.state()) : std::nullopt) {
    progress.set_resumable(states.folder);
    history = std::move(kept->history);
    progress.cached(cell.name, kept->state.steps);
    if (is_over(cell, kept->state.steps, history)) {
      return {.cell = cell, .history = std::move(history), .parameters = std::move(kept->state.parameters)};
    }
    trainer.restore(std::move(kept->state));
  }
  Clock::time_point next = Clock::now() + std::chrono::seconds(2);
  const auto save = [&](const TrainingState& now) {
    if (!state) return;
    const Clock::time_point begin = Clock::now();
    state->write(ops, now, history);
    progress.set_resumable(states.folder);
    const Clock::time_point end = Clock::now();
    next = end + std::max<Clock::duration>(std::chrono::seconds(10), 50 * (end - begin));
  };
  const Recorder recorder(ops, cell.spec, cell.train, corpus);
  const bool small = parts_of_micro_batch(cell.spec, cell.train, cell.dtype) > 1;
  bool ends_here = false;
  const auto record_if_due = [&] {
    const int step = trainer.steps();
    if (!is_recorded(cell.train, step)) return;
    if (!history.records.contains(step)) {
      const stacks::Threads threads = stacks::Threads::one_if(small);
      RecordedValues& values = history.records[step] = recorder.record(trainer.weights());
      if (states.at_record) states.at_record(cell, trainer.weights(), values);
      const bool is_last = step == cell.train.steps && history.is_finite();
      if (is_last && states.at_end) states.at_end(cell, trainer.weights(), values);
    }
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    ends_here = !progress.recorded({.run = cell.name,
                                    .placement = config::placement_label(cell.spec),
                                    .seed = cell.seed,
                                    .step = step,
                                    .steps = cell.train.steps,
                                    .loss = history.loss.empty() ? none : history.loss.back(),
                                    .grad_norm = history.grad_norm.empty() ? none : history.grad_norm.back(),
                                    .values = &history.records.at(step)});
  };
  record_if_due();
  while (!ends_here && !is_over(cell, trainer.steps(), history)) {
    if (progress.stop_requested() || others.failed()) {
      save(trainer.state());
      throw stacks::Stopped();
    }
    history.add(trainer.step());
    record_if_due();
    if (Clock::now() >= next) save(trainer.state());
    progress.step(cell.name);
  }
  TrainingState last = trainer.state();
  if (is_over(cell, trainer.steps(), history)) {  // nothing goes on from here
    last.optimizer.clear();
    if (states.forgets_weights) last.parameters.clear();
  }
  save(last);
  return {.cell = cell, .history = std::move(history), .parameters = std::move(last.parameters)};
}

}  // namespace periscope::training
