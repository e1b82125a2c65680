#pragma once

#include "tests/support/doctest.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/numerics/number_format.h"
#include "theory/certify/rounded_parameters.h"

/// Arithmetics that are so coarse that every term of a certificate's allowance (T24) is a visible part of it, and the
/// terms themselves for numbers, written from docs/theory/certificates.md.
namespace periscope::theory {

/// Bounds are widened by what double may have lost in computing them, at most (n + 8)·2⁻⁵² ≤ 1e-12 a step for n ≤ 4096
/// (outward.h). Of numbers up to a few hundred that is 1e-10 at most, and no term of an allowance is below 2⁻¹² where
/// it is held: 1e-6 of it. A term that is missing, or another's, is off by a hundredth or more.
inline constexpr double of_double = 1e-6;

inline doctest::Approx by_hand(double x) { return doctest::Approx(x).epsilon(of_double).scale(1e-12); }

/// One run's u, η, u′, η′, and what they make of a number.
struct Coarse {
  std::string name;
  RunArithmetic run;
  double u = 0.0, eta = 0.0;          ///< of what is stored
  double sum_u = 0.0, sum_eta = 0.0;  ///< of sums

  Coarse(std::string called, const NumberFormat& stored, const NumberFormat& accumulated)
      : name(std::move(called)),
        run{Arithmetic::mixed, stored, accumulated},
        u(stored.unit_roundoff()),
        eta(stored.smallest_subnormal()),
        sum_u(accumulated.unit_roundoff()),
        sum_eta(accumulated.smallest_subnormal()) {}

  /// What storing a number of this magnitude loses.
  [[nodiscard]] double lost(double m) const { return u * m + eta; }
  /// The magnitude once it is stored.
  [[nodiscard]] double stored(double m) const { return m + lost(m); }
  /// κ of a sum of n products.
  [[nodiscard]] double kappa(double n) const { return sum_u + (n - 1.0) * sum_u * (1.0 + sum_u); }
  /// How far such a sum is off whose magnitudes add up to `absolute`.
  [[nodiscard]] double of_sum(double n, double absolute) const {
    return kappa(n) * absolute + n * sum_eta * (1.0 + (n - 1.0) * sum_u);
  }
};

/// Each of u, η, u′ and η′ alone (the others are those of fp64: nothing), and all together. A format with a large
/// smallest subnormal η and 53 bits is fixed point.
inline std::vector<Coarse> coarse_arithmetics() {
  const NumberFormat fine{"fine", 1e300, 53, -1022};
  const NumberFormat rough{"rough", 1e300, 7, -900};
  const NumberFormat rougher{"rougher", 1e300, 8, -900};
  const NumberFormat steps{"steps", 1e300, 53, 42};            // η = 2⁻¹⁰
  const NumberFormat smaller_steps{"smaller", 1e300, 53, 40};  // 2⁻¹²
  const NumberFormat both{"both", 1e300, 7, -4};
  const NumberFormat both_of_sums{"both of sums", 1e300, 8, -5};
  return {{"u alone", rough, fine},
          {"eta alone", steps, fine},
          {"u' alone", fine, rougher},
          {"eta' alone", fine, smaller_steps},
          {"all", both, both_of_sums}};
}

}  // namespace periscope::theory
