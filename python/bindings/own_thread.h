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

/// How far a run is, at one moment.
struct Snapshot {
  std::string what;    ///< "propagate"
  std::string label;   ///< what the step in hand belongs to
  double share = 0.0;  ///< of all work, 0 to 1
  double steps_done = 0.0;
  std::int64_t steps = 0;
  double seconds = 0.0;  ///< since `what` began
  std::optional<double> seconds_left;
  std::vector<std::string> said;  ///< lines for people since the last snapshot
};

/// Progress of a run on one thread that another thread watches: it reads snapshots, answers what the run asks, and can
/// stop it.
class WatchedProgress final : public stacks::Progress {
 public:
  /// `answers_records`: somebody asks for records and answers them.
  explicit WatchedProgress(bool answers_records) : answers_records_(answers_records) {}

  // -- the run's side
  void say(const std::string& lines) override;
  /// Waits for the watcher's answer, or until the run is asked to stop.
  [[nodiscard]] bool recorded(const stacks::TrainingRecord& record) override;
  [[nodiscard]] bool stop_requested() const override { return stop_; }
  void done();

  // -- the watcher's side
  void stop();
  /// Waits for the end of the run, a record, or `milliseconds`. True at the end of the run.
  [[nodiscard]] bool wait(int milliseconds);
  /// Nothing if nothing happened since the last one.
  [[nodiscard]] std::optional<Snapshot> snapshot();
  /// The record that the run waits with, or null. It lives until it is answered.
  [[nodiscard]] const stacks::TrainingRecord* record();
  void answer(bool go_on);

 private:
  void on_report(Report /*change*/) override { changed_ = true; }

  bool answers_records_;
  std::atomic<bool> stop_ = false;
  std::mutex records_;
  std::condition_variable for_watcher_;
  std::condition_variable for_run_;
  bool done_ = false;
  bool changed_ = false;
  std::vector<std::string> said_;
  const stacks::TrainingRecord* record_ = nullptr;
  std::optional<bool> answer_;
};

/// Runs `work` on a thread of its own: OpenMP's threads then belong to that thread, so that the caller's OpenMP is
/// unchanged and a forked child of the process can use its own. The calling thread, which has the GIL, releases it, and
/// every 50 ms looks for signals and calls `watch`. What either of them throws stops the work and, once that has ended,
/// goes to the caller. What `work` throws does too.
void on_own_thread(WatchedProgress& progress, const std::function<void()>& work, const std::function<void()>& watch);

/// Runs work without progress likewise.
void on_own_thread(const std::function<void()>& work);

/// Stops all runs of this process and waits for them, at the interpreter's end. Called with the GIL, which it releases
/// while it waits.
void stop_all();

}  // namespace periscope::python
