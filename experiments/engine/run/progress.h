#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace periscope::cache {
class Cache;
}

namespace periscope::stacks {

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

/// Connects a long-running function to its caller: reports its progress, asks whether it should stop, and gives it the
/// cache. This base class shows nothing, never asks to stop and caches nothing without a cache.
class Progress {
 public:
  Progress() = default;
  /// `cache`, if there is one, outlives this.
  explicit Progress(const cache::Cache* cache) : cache_(cache) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  virtual ~Progress() = default;

  /// Begins `what`, a number of tasks; what was counted before is done.
  virtual void begin(const std::string& /*what*/, std::int64_t /*tasks*/) {}
  /// The next tasks are called `label`.
  virtual void next(const std::string& /*label*/) {}
  /// `count` tasks, called `label`, were computed.
  virtual void step(const std::string& /*label*/, int /*count*/ = 1) {}
  /// `count` tasks were restored from the cache; excluded from the rate estimate.
  virtual void cached(const std::string& /*label*/, int /*count*/ = 1) {}
  /// This share of the next task is done, for tasks that take long. One thread at a time.
  virtual void part(double /*share*/) {}
  /// All tasks are done, and `what` is left to do, which takes long where there is much to judge.
  virtual void finish(const std::string& /*what*/) {}
  /// A stack that trains was recorded. False: it ends here, with what it has; the others go on. One thread at a time.
  [[nodiscard]] virtual bool recorded(const TrainingRecord& /*record*/) { return true; }
  /// Whole lines for people.
  virtual void say(const std::string& /*lines*/) {}
  /// From now on the same command resumes a run that is stopped from `folder`. One thread at a time.
  void set_resumable(const std::string& folder) {
    resumable_ = true;
    on_resumable(folder);
  }
  [[nodiscard]] bool is_resumable() const { return resumable_; }

  /// A function that sees this ends soon, with a result that is marked stopped_early. Any thread may ask.
  [[nodiscard]] virtual bool stop_requested() const { return false; }
  void throw_if_stop_requested() const {
    if (stop_requested()) throw Stopped();
  }
  /// Null if nothing is cached.
  [[nodiscard]] const cache::Cache* task_cache() const { return cache_; }
  void use_cache(const cache::Cache* cache) { cache_ = cache; }
  /// For a prediction (theory::OnShare), which is the next task: shows how far it is, and ends it, by Stopped, when
  /// the run is asked to stop.
  [[nodiscard]] std::function<void(double)> on_share() {
    return [this](double share) {
      throw_if_stop_requested();
      part(share);
    };
  }

 private:
  virtual void on_resumable(const std::string& /*folder*/) {}

  const cache::Cache* cache_ = nullptr;
  bool resumable_ = false;
};

}  // namespace periscope::stacks
