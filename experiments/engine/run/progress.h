#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace periscope::cache {
class Cache;
}

namespace periscope::stacks {

/// Thrown by a function that stops on request. Not a std::exception, as stopping is not a failure.
struct Stopped {};

/// A record of a training run, for Progress::recorded.
struct TrainingRecord {
  std::string run;  ///< name of the run, such as "peri-seed0"
  std::string placement;
  std::uint64_t seed = 0;
  int step = 0;   ///< number of completed steps
  int steps = 0;  ///< number of steps of the whole run
  // Values of the last step [nat]; NaN before the first step.
  double loss = 0.0;
  double grad_norm = 0.0;  ///< before clipping
  /// Recorded values by column name (training::RecordedValues).
  const std::map<std::string, std::vector<double>>* values = nullptr;
};

/// Tracks progress in tasks and estimates the remaining time.
struct ProgressMeter {
  using Clock = std::chrono::steady_clock;

  std::int64_t tasks = 0;
  double computed = 0.0, cached = 0.0, part = 0.0;  ///< numbers of tasks; `part`: completed fraction of the current one
  double computed_before = 0.0;                     ///< number of tasks computed under earlier labels
  Clock::time_point start = Clock::now();           ///< start of the tasks with the current label

  [[nodiscard]] double done() const { return computed + cached + part; }
  /// Returns the completed fraction of all tasks, 0 to 1; nullopt if there are no tasks.
  [[nodiscard]] std::optional<double> share() const {
    return tasks == 0 ? std::nullopt : std::optional(std::min(1.0, done() / static_cast<double>(tasks)));
  }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  /// Returns computed tasks per second with the current label; nullopt until two of them are computed. Excludes other
  /// labels, because a prediction can take as long as hundreds of seeds.
  [[nodiscard]] std::optional<double> rate() const {
    const double elapsed = seconds(), count = computed - computed_before;
    return count < 2.0 || !(elapsed > 0.0) ? std::nullopt : std::optional((count + part) / elapsed);
  }
  /// Returns the estimated time for the remaining tasks, from rate().
  [[nodiscard]] std::optional<double> seconds_left() const {
    const std::optional<double> pace = rate();
    return pace ? std::optional(std::max(0.0, static_cast<double>(tasks) - done()) / *pace) : std::nullopt;
  }
};

/// Interface between a long-running function and its caller: progress reports, stop requests and the cache. This base
/// class shows nothing and never requests a stop.
class Progress {
 public:
  Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  virtual ~Progress() = default;

  /// Starts a new activity `what` of `tasks` tasks.
  void begin(const std::string& what, std::int64_t tasks) {
    report(Report::begun, "", [&] {
      what_ = what;
      meter_ = {.tasks = tasks};
    });
  }
  /// Sets the label of the next tasks.
  void next(const std::string& label) {
    report(Report::next, label, [&] {
      meter_.computed_before = meter_.computed;
      meter_.start = ProgressMeter::Clock::now();
    });
  }
  /// Reports `count` computed tasks.
  void step(const std::string& label, int count = 1) {
    report(Report::computed, label, [&] {
      meter_.computed += count;
      meter_.part = 0.0;
    });
  }
  /// Reports `count` tasks restored from the cache; excluded from the rate estimate.
  void cached(const std::string& label, int count = 1) {
    report(Report::cached, label, [&] { meter_.cached += count; });
  }
  /// Reports the completed fraction of the current task, for long tasks.
  void part(double share) {
    report(Report::part, std::nullopt, [&] { meter_.part = share; });
  }
  /// Reports that all tasks are done; `what` names the remaining work.
  void finish(const std::string& what) {
    report(Report::finishing, what, [] {});
  }
  /// Called after every record of a training run, by several threads concurrently. Returns false to end this run early.
  [[nodiscard]] virtual bool recorded(const TrainingRecord& /*record*/) { return true; }
  /// Shows whole lines to the user.
  virtual void say(const std::string& /*lines*/) {}
  /// Declares that from now on a stopped run can be resumed from `folder`.
  void set_resumable(const std::string& folder) {
    const std::scoped_lock lock(mutex_);
    resumable_ = true;
    on_resumable(folder);
  }
  [[nodiscard]] bool is_resumable() const { return resumable_; }

  /// Returns true if the function should throw Stopped soon. Thread-safe.
  [[nodiscard]] virtual bool stop_requested() const { return false; }
  void throw_if_stop_requested() const {
    if (stop_requested()) throw Stopped();
  }
  /// Returns the cache, which outlives this object, or null if there is none.
  [[nodiscard]] const cache::Cache* task_cache() const { return cache_; }
  void use_cache(const cache::Cache* cache) { cache_ = cache; }
  /// Returns a callback (theory::OnProgress) that reports a prediction's completed fraction; throws Stopped on request.
  [[nodiscard]] std::function<void(double)> on_progress() {
    return [this](double share) {
      throw_if_stop_requested();
      part(share);
    };
  }

 protected:
  enum class Report { begun, next, computed, cached, part, finishing };
  /// Called after every change of `what_`, `label_` or `meter_`, with mutex_ locked.
  virtual void on_report(Report /*change*/) {}

  std::mutex mutex_;
  std::string what_;
  std::string label_;  ///< label of the last or current task
  ProgressMeter meter_;

 private:
  template <class Change>
  void report(Report kind, const std::optional<std::string>& label, const Change& change) {
    const std::scoped_lock lock(mutex_);
    if (label) label_ = *label;
    change();
    on_report(kind);
  }
  virtual void on_resumable(const std::string& /*folder*/) {}

  const cache::Cache* cache_ = nullptr;
  bool resumable_ = false;
};

}  // namespace periscope::stacks
