#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"

namespace periscope::python {

/// Progress of a run at one moment.
struct Snapshot {
  std::string phase;   ///< name of the phase, e.g. "propagate"
  std::string label;   ///< label of the current step, such as a placement
  double share = 0.0;  ///< fraction of the phase that is done, 0 to 1
  double steps_done = 0.0;
  std::int64_t steps = 0;
  double seconds = 0.0;  ///< since the start of the phase
  std::optional<double> seconds_left;
  std::vector<std::string> messages;  ///< printed since the last snapshot
};

/// Progress of a run on a worker thread. Another thread, the watcher, reads snapshots, answers records and can stop it.
class WatchedProgress final : public stacks::Progress {
 public:
  /// `answers_records`: the watcher answers training records; otherwise `recorded` returns true at once.
  explicit WatchedProgress(bool answers_records) : answers_records_(answers_records) {}

  // Called by the worker thread.
  void say(const std::string& lines) override;
  /// Waits for the watcher's answer or a stop request.
  [[nodiscard]] bool recorded(const stacks::TrainingRecord& record) override;
  [[nodiscard]] bool stop_requested() const override { return stop_; }
  void done();

  // Called by the watcher.
  void stop();
  /// Waits at most `milliseconds` for a record or the end of the run. Returns true at the end of the run.
  [[nodiscard]] bool wait(int milliseconds);
  /// Returns nullopt if nothing changed since the last call.
  [[nodiscard]] std::optional<Snapshot> snapshot();
  /// Returns the record that waits for an answer, or null. It is valid until it is answered.
  [[nodiscard]] const stacks::TrainingRecord* record();
  void answer(bool continue_training);

 private:
  void on_report(Report /*change*/) override { changed_ = true; }

  bool answers_records_;
  std::atomic<bool> stop_ = false;
  std::mutex records_;
  std::condition_variable for_watcher_;
  std::condition_variable for_run_;
  bool done_ = false;
  bool changed_ = false;
  std::vector<std::string> messages_;
  const stacks::TrainingRecord* record_ = nullptr;
  std::optional<bool> answer_;
};

/// Runs `work` on a separate thread, which owns its OpenMP threads: the caller's OpenMP state is unchanged, and a
/// forked child can use OpenMP. The calling thread must hold the GIL; it releases the GIL while it waits, and every 50
/// ms checks for signals and calls `watch`. An exception of a signal handler or of `watch` stops the work and is
/// rethrown after the work has ended. Exceptions of `work` are rethrown too.
void run_on_worker(WatchedProgress& progress, const std::function<void()>& work, const std::function<void()>& watch);

/// Runs `work` on a separate thread without progress.
void run_on_worker(const std::function<void()>& work);

/// Stops all runs of this process and waits for them; called when the interpreter exits. The caller must hold the GIL,
/// which is released while it waits.
void stop_all();

}  // namespace periscope::python
