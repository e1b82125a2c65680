#pragma once

#include <algorithm>
#include <functional>
#include <mutex>

namespace periscope::theory {

/// Receives the approximate share of a prediction that is done, from 0 to 1, never decreasing, from any thread but one
/// at a time. An exception that it throws ends the prediction.
using OnShare = std::function<void(double share)>;

/// Receives the work that a chain has done since the last call, in patterns of one attention or in sublayers.
using OnWork = std::function<void(double patterns)>;

/// Aggregates the progress of concurrent chains.
class ShareDone {
 public:
  /// `on_share` may be empty, and outlives this.
  explicit ShareDone(const OnShare& on_share) : on_share_(on_share) {}

  void expect(double work) {
    const std::lock_guard lock(mutex_);
    expected_ += work;
  }
  /// Any thread may call it.
  void add(double work) {
    if (!on_share_) return;
    const std::lock_guard lock(mutex_);
    done_ += work;
    share_ = std::clamp(done_ / expected_, share_, 1.0);
    on_share_(share_);
  }

 private:
  const OnShare& on_share_;
  std::mutex mutex_;
  double expected_ = 0.0;
  double done_ = 0.0;
  double share_ = 0.0;
};

}  // namespace periscope::theory
