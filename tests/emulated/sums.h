#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "sim/numerics/rounding.h"
#include "tests/emulated/emulation.h"

namespace periscope::emulated {

/// Raises `peak` to |value|; NaN counts as infinite.
inline void raise(double& peak, double value) {
  const double magnitude = std::isnan(value) ? std::numeric_limits<double>::infinity() : std::abs(value);
  if (magnitude > peak) peak = magnitude;
}

/// Sums in which every addition is rounded to a format. Not thread-safe.
class Sums {
 public:
  /// `in` rounds products and partial sums.
  Sums(const Emulation& emulation, const Rounding& in);

  /// Returns Σ a_i b_i for i < n, with strides; raises `peak` to the magnitudes of all products and partial sums.
  double products(const double* a, std::int64_t a_stride, const double* b, std::int64_t b_stride, std::int64_t n,
                  double& peak);
  /// Returns Σ x_i.
  double terms(const double* x, std::int64_t n, double& peak);

 private:
  struct Term {
    double a, b;
    double value;  ///< the rounded product
  };
  double add_up(double& peak);
  double sequential(double& peak) const;
  double pairwise(std::size_t first, std::size_t count, double& peak) const;
  double in_lanes(double& peak) const;
  void shuffle();
  /// Returns acc + term, rounded.
  [[nodiscard]] double plus(double acc, const Term& term) const;

  SumOrder order_;
  bool fused_;
  bool fuse_ = false;  ///< whether the current sum is fused
  bool single_;        ///< accumulates in f32
  Rounding in_;
  std::minstd_rand engine_;
  std::vector<Term> terms_;
};

}  // namespace periscope::emulated
