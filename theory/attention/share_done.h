#pragma once

#include <algorithm>
#include <functional>
#include <mutex>

namespace periscope::theory {

/// Called with the share of a prediction that is done, about: from 0 to 1, never less than before, often, by one thread
/// at a time but not always by the same. What it throws ends the prediction and leaves it.
using OnShare = std::function<void(double share)>;

/// Called by a chain with the work that it has done since the last call, in patterns of one attention or, where there
/// are none, in sublayers. What it throws ends the chain.
using OnWork = std::function<void(double patterns)>;

/// Adds up the work of chains that run beside each other.
class ShareDone {
 public:
  /// `on_share` may be empty, and outlives this.
  explicit ShareDone(const OnShare& on_share) : on_share_(on_share) {}

  /// So much more is to be done.
  void expect(double work) {
    const std::lock_guard lock(mutex_);
    expected_ += work;
  }
  /// So much is done. Any thread may call it.
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
