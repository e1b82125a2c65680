#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "sim/numerics/rounding.h"
#include "tests/emulated/emulation.h"

namespace periscope::emulated {

/// Raises `peak` to |value|; what is not a number counts as infinite.
inline void raise(double& peak, double value) {
  const double magnitude = std::isnan(value) ? std::numeric_limits<double>::infinity() : std::abs(value);
  if (magnitude > peak) peak = magnitude;
}

/// Sums in a format, every addition rounded. For one thread: holds room for terms.
class Sums {
 public:
  /// `in` rounds products and partial sums.
  Sums(const Emulation& emulation, const Rounding& in);

  /// Σ a_i b_i, i < n, with strides; raises `peak` to every partial sum's magnitude and every product's.
  double products(const double* a, std::int64_t a_stride, const double* b, std::int64_t b_stride, std::int64_t n,
                  double& peak);
  /// Σ x_i.
  double terms(const double* x, std::int64_t n, double& peak);

 private:
  struct Term {
    double a, b;
    double value;  ///< the rounded product
  };
  double add_up(double& peak);
  double one_after_the_other(double& peak) const;
  double pairwise(std::size_t first, std::size_t count, double& peak) const;
  double in_lanes(double& peak) const;
  void shuffle();
  /// acc + term, rounded.
  [[nodiscard]] double plus(double acc, const Term& term) const;

  SumOrder order_;
  bool fused_;
  bool fuse_ = false;  ///< in the sum at hand
  bool single_;        ///< products are those of float
  Rounding in_;
  std::minstd_rand engine_;
  std::vector<Term> terms_;
};

}  // namespace periscope::emulated
