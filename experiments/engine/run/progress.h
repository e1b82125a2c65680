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

/// Thrown by a function that was asked to stop; it has no result then. Not a std::exception, as it is no failure.
struct Stopped {};

/// A record of a stack in training, as callers see it.
struct TrainingRecord {
  std::string run;  ///< "peri-seed0"
  std::string placement;
  std::uint64_t seed = 0;
  int step = 0;  ///< steps that are done
  int steps = 0;
  // Of the last step; NaN before the first [nat].
  double loss = 0.0;
  double grad_norm = 0.0;  ///< before clipping
  /// By column (training::RecordedValues).
  const std::map<std::string, std::vector<double>>* values = nullptr;
};

/// Progress in tasks, and the time that is left.
struct ProgressMeter {
  using Clock = std::chrono::steady_clock;

  std::int64_t tasks = 0;
  double computed = 0.0, cached = 0.0, part = 0.0;  ///< in tasks; part of the current one
  Clock::time_point start = Clock::now();

  [[nodiscard]] double done() const { return computed + cached + part; }
  /// Returns the share of all tasks that is done, 0 to 1; nothing without tasks.
  [[nodiscard]] std::optional<double> share() const {
    return tasks == 0 ? std::nullopt : std::optional(std::min(1.0, done() / static_cast<double>(tasks)));
  }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  /// Returns computed tasks per second; nothing before the first.
  [[nodiscard]] std::optional<double> rate() const {
    const double elapsed = seconds();
    return computed < 1.0 || !(elapsed > 0.0) ? std::nullopt : std::optional((computed + part) / elapsed);
  }
  /// Returns the time that the remaining tasks take at that rate.
  [[nodiscard]] std::optional<double> seconds_left() const {
    const std::optional<double> pace = rate();
    return pace ? std::optional(std::max(0.0, static_cast<double>(tasks) - done()) / *pace) : std::nullopt;
  }
};

/// Connects a long-running function to its caller: reports its progress, asks whether it should stop, and gives it the
/// cache. This base class shows nothing, never asks to stop and caches nothing without a cache.
class Progress {
 public:
  Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  virtual ~Progress() = default;

  /// Begins `what`, a number of tasks; the previous ones are done.
  void begin(const std::string& what, std::int64_t tasks) {
    report(Report::begun, "", [&] {
      what_ = what;
      meter_ = {.tasks = tasks};
    });
  }
  /// The next tasks are called `label`.
  void next(const std::string& label) {
    report(Report::next, label, [] {});
  }
  /// `count` tasks, called `label`, were computed.
  void step(const std::string& label, int count = 1) {
    report(Report::computed, label, [&] {
      meter_.computed += count;
      meter_.part = 0.0;
    });
  }
  /// `count` tasks were restored from the cache; excluded from the rate estimate.
  void cached(const std::string& label, int count = 1) {
    report(Report::cached, label, [&] { meter_.cached += count; });
  }
  /// This share of the next task is done, for tasks that take long.
  void part(double share) {
    report(Report::part, std::nullopt, [&] { meter_.part = share; });
  }
  /// All tasks are done; `what` names the work that remains.
  void finish(const std::string& what) {
    report(Report::finishing, what, [] {});
  }
  /// A stack in training was recorded. Returns false to end its run here; others continue. Several threads may
  /// call it at once.
  [[nodiscard]] virtual bool recorded(const TrainingRecord& /*record*/) { return true; }
  /// Whole lines for people.
  virtual void say(const std::string& /*lines*/) {}
  /// From now on the same command resumes a stopped run from `folder`.
  void set_resumable(const std::string& folder) {
    const std::scoped_lock lock(mutex_);
    resumable_ = true;
    on_resumable(folder);
  }
  [[nodiscard]] bool is_resumable() const { return resumable_; }

  /// Whether the function should throw Stopped soon. Any thread may ask.
  [[nodiscard]] virtual bool stop_requested() const { return false; }
  void throw_if_stop_requested() const {
    if (stop_requested()) throw Stopped();
  }
  /// Null if nothing is cached. It outlives this.
  [[nodiscard]] const cache::Cache* task_cache() const { return cache_; }
  void use_cache(const cache::Cache* cache) { cache_ = cache; }
  /// For a prediction (theory::OnProgress), which is the next task: shows its share, and throws Stopped when asked to
  /// stop.
  [[nodiscard]] std::function<void(double)> on_progress() {
    return [this](double share) {
      throw_if_stop_requested();
      part(share);
    };
  }

 protected:
  /// A change of `what_`, `label_` and `meter_`.
  enum class Report { begun, next, computed, cached, part, finishing };
  /// Called after every change, one at a time, while mutex_ is locked.
  virtual void on_report(Report /*change*/) {}

  std::mutex mutex_;
  std::string what_;
  std::string label_;  ///< of the last or current task
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
