#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/enumerators.h"

namespace periscope::stacks {

class CellJournal;

/// Thrown from the depth of a function that was asked to stop; until_stopped catches it at the top.
struct Stopped {};

/// Calls f; true if it was stopped.
template <class F>
bool until_stopped(const F& f) {
  try {
    f();
    return false;
  } catch (const Stopped&) {
    return true;
  }
}

/// Kinds of work, whose operations take unlike times: the limit of infinite width, T25's chain, measurement.
enum class WorkKind { limit, chain, measurement };
/// Operations of every kind, about.
struct Work {
  std::array<double, identifiers<WorkKind>.size()> operations = {};

  [[nodiscard]] double& of(WorkKind kind) { return operations[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] double of(WorkKind kind) const { return operations[static_cast<std::size_t>(kind)]; }
};

/// A record of a stack that trains, as whoever watches sees it.
struct TrainingRecord {
  std::string run;  ///< "peri-seed0"
  std::string placement;
  std::uint64_t seed = 0;
  int step = 0;  ///< steps that are done
  int steps = 0;
  double loss = 0.0;       ///< of the last step; NaN before the first [nat]
  double grad_norm = 0.0;  ///< likewise, before clipping [nat]
  /// What was recorded, by column (training::RecordedValues).
  const std::map<std::string, std::vector<double>>* values = nullptr;
};

/// The link between a function that runs for long and its caller: how far it is, whether it should stop, and where its
/// finished cells are stored. This base class shows nothing, never asks to stop and stores nothing without a journal.
class Progress {
 public:
  Progress() = default;
  /// `journal`, if there is one, outlives this.
  explicit Progress(CellJournal* journal) : journal_(journal) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  virtual ~Progress() = default;

  /// Begins to count the `steps` of `what`, which take equally long; what was counted before is done.
  virtual void begin(const std::string& /*what*/, std::int64_t /*steps*/) {}
  /// Begins `what`, whose steps are unlike: `next` says what comes.
  virtual void begin(const std::string& /*what*/, const Work& /*all*/) {}
  /// Every step from here on is of this kind and has so many operations; `label` says what it belongs to.
  virtual void next(WorkKind /*kind*/, double /*operations*/, const std::string& /*label*/ = {}) {}
  /// `count` steps are done; `label` says what they belonged to.
  virtual void step(const std::string& /*label*/, int /*count*/ = 1) {}
  /// `count` steps had been done by an earlier run: they are behind, but say nothing about the rate.
  virtual void kept(const std::string& /*label*/, int /*count*/) {}
  /// This share of the next step is done, for steps that take long. One thread at a time.
  virtual void part(double /*share*/) {}
  /// All steps are done, and `what` is left to do, which takes long where there is much to judge.
  virtual void finish(const std::string& /*what*/) {}
  /// A stack that trains was recorded. False: it ends here, with what it has; the others go on. One thread at a time.
  [[nodiscard]] virtual bool recorded(const TrainingRecord& /*record*/) { return true; }
  /// Whole lines for people.
  virtual void say(const std::string& /*lines*/) {}
  /// While the returned token lives, a run that is stopped can be gone on from; `note` says where.
  [[nodiscard]] virtual std::shared_ptr<const void> resumable(const std::string& /*note*/) { return {}; }

  /// A function that sees this ends soon, with a result that is marked stopped_early. Any thread may ask.
  [[nodiscard]] virtual bool stop_requested() const { return false; }
  void throw_if_stop_requested() const {
    if (stop_requested()) throw Stopped();
  }
  /// Finished cells, to be asked before a cell is computed and told after; null if none are kept.
  [[nodiscard]] CellJournal* journal() const { return journal_; }
  /// From here on finished cells are stored in `journal`, which outlives this; null: nowhere.
  void keep_cells_in(CellJournal* journal) { journal_ = journal; }
  /// For a prediction (theory::OnShare), which is the next step: shows how far it is, and ends it, by Stopped, when
  /// the run is asked to stop.
  [[nodiscard]] std::function<void(double)> on_share() {
    return [this](double share) {
      throw_if_stop_requested();
      part(share);
    };
  }

 private:
  CellJournal* journal_ = nullptr;
};

}  // namespace periscope::stacks
