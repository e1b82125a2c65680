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

  void expect(double work) {
    const std::lock_guard lock(mutex_);
    expected_ += work;
  }
  /// Thread-safe.
  void add(double work) {
    if (!on_progress_) return;
    const std::lock_guard lock(mutex_);
    done_ += work;
    fraction_ = std::clamp(done_ / expected_, fraction_, 1.0);
    on_progress_(fraction_);
  }

 private:
  const OnProgress& on_progress_;
  std::mutex mutex_;
  double expected_ = 0.0;
  double done_ = 0.0;
  double fraction_ = 0.0;
};

}  // namespace periscope::theory
