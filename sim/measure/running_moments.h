#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace periscope {

/// Mean and variance by Welford's method.
class RunningMoments {
 public:
  void add(double x) {
    ++count_;
    const double delta = x - mean_;
    mean_ += delta / static_cast<double>(count_);
    sum_squares_ += delta * (x - mean_);
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// NaN if no number was added.
  [[nodiscard]] double mean() const { return count_ > 0 ? mean_ : nan; }
  /// Unbiased variance; NaN for fewer than two numbers.
  [[nodiscard]] double variance() const { return count_ > 1 ? sum_squares_ / static_cast<double>(count_ - 1) : nan; }
  /// Standard error of the mean; NaN for fewer than two numbers.
  [[nodiscard]] double standard_error() const { return std::sqrt(variance() / static_cast<double>(count_)); }

 private:
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::int64_t count_ = 0;
  double mean_ = 0.0;
  double sum_squares_ = 0.0;
};

}  // namespace periscope
