#include "experiments/engine/training/run_cell.h"

#include <algorithm>
#include <chrono>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/threads.h"

namespace periscope::training {
namespace {

using Clock = std::chrono::steady_clock;

bool is_over(const TrainCell& cell, int steps, const CellHistory& history) {
  return steps >= cell.train.steps || !history.is_finite();
}

}  // namespace

TrainedCell run_cell(const Backend& ops, const TrainCell& cell, const Corpus& corpus, const StateFile* state,
                     const CellCallbacks& callbacks) {
  Trainer trainer(ops, cell.spec, cell.train, corpus, cell.seed, cell.dtype);
  CellHistory history;
  if (auto kept = state != nullptr ? state->read(ops, trainer.state()) : std::nullopt) {
    if (callbacks.on_state) callbacks.on_state();
    history = std::move(kept->history);
    if (callbacks.on_kept) callbacks.on_kept(kept->state.steps);
    if (is_over(cell, kept->state.steps, history)) {
      return {.cell = cell, .history = std::move(history), .parameters = std::move(kept->state.parameters)};
    }
    trainer.restore(std::move(kept->state));
  }
  Clock::time_point next = Clock::now() + std::chrono::seconds(2);
  const auto save = [&](const TrainingState& now) {
    if (state == nullptr) return;
    const Clock::time_point begin = Clock::now();
    state->write(ops, now, history);
    if (callbacks.on_state) callbacks.on_state();
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
      if (callbacks.at_record) callbacks.at_record(cell, trainer.weights(), values);
      if (step == cell.train.steps && history.is_finite() && callbacks.at_end)
        callbacks.at_end(cell, trainer.weights(), values);
    }
    ends_here = callbacks.on_record && !callbacks.on_record(step, history);
  };
  record_if_due();
  while (!ends_here && !is_over(cell, trainer.steps(), history)) {
    if (callbacks.stop_requested && callbacks.stop_requested()) {
      save(trainer.state());
      throw stacks::Stopped();
    }
    history.add(trainer.step());
    record_if_due();
    if (Clock::now() >= next) save(trainer.state());
    if (callbacks.on_step) callbacks.on_step();
  }
  TrainingState last = trainer.state();
  if (is_over(cell, trainer.steps(), history)) {  // nothing goes on from here
    last.optimizer.clear();
    if (callbacks.forgets_weights) last.parameters.clear();
  }
  save(last);
  return {.cell = cell, .history = std::move(history), .parameters = std::move(last.parameters)};
}

}  // namespace periscope::training
