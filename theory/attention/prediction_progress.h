#pragma once

#include <algorithm>
#include <functional>
#include <mutex>

namespace periscope::theory {

/// Callback with the approximate fraction of a prediction that is done, from 0 to 1, never decreasing. Called from any
/// thread, but never concurrently. An exception that it throws aborts the prediction.
using OnProgress = std::function<void(double fraction)>;

/// Callback with the work done since the last call, in units of one attention pattern or one sublayer.
using OnWork = std::function<void(double patterns)>;

/// Aggregates the progress of concurrent replicates.
class PredictionProgress {
 public:
  /// `on_progress` may be empty and must outlive this object.
  explicit PredictionProgress(const OnProgress& on_progress) : on_progress_(on_progress) {}

  /// Adds expected work. If more may follow, this work covers only 70 % of the remaining fraction, so that later work
  /// still advances it.
  void expect(double work, bool more_may_follow = false) {
    const std::lock_guard lock(mutex_);
    expected_ = std::max(0.0, expected_ - done_) + work;
    done_ = 0.0;
    first_ = fraction_;
    last_ = first_ + (more_may_follow ? 0.7 : 1.0) * (1.0 - first_);
  }
  /// Thread-safe.
  void add(double work) {
    if (!on_progress_) return;
    const std::lock_guard lock(mutex_);
    done_ += work;
    fraction_ = first_ + (last_ - first_) * std::min(1.0, done_ / expected_);
    on_progress_(fraction_);
  }
  void finish() {
    if (on_progress_) on_progress_(1.0);
  }

 private:
  const OnProgress& on_progress_;
  std::mutex mutex_;
  double expected_ = 0.0;            ///< work left at the last call of expect
  double done_ = 0.0;                ///< work done since then
  double first_ = 0.0, last_ = 1.0;  ///< fractions at the start and end of this work
  double fraction_ = 0.0;
};

}  // namespace periscope::theory
