#include "theory/norms/norm_set.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "theory/certify/computed_ops.h"

namespace periscope::theory {
namespace {

/// Returns |α|·m, rounded up; 0 for α = 0, even if m is infinite or NaN.
double phi_input(double alpha, double m) { return alpha == 0.0 || m == 0.0 ? 0.0 : outward(std::abs(alpha) * m); }

/// Largest values of φ(αx) and −φ(αx) for x in [low, high]; α may be negative.
struct PhiRange {
  double up;
  double down;
};
template <class Magnitude>
PhiRange phi_range(double low, double high, double alpha, const Magnitude& magnitude) {
  const double up = magnitude(std::max(high, 0.0));
  const double down = magnitude(std::max(-low, 0.0));
  return alpha >= 0.0 ? PhiRange{up, down} : PhiRange{down, up};
}

}  // namespace

double phi_magnitude(NormFormula::Phi phi, double u) {
  // 16 times the error of one operation exceeds the error of the library's tanh and erf.
  const auto above = [](double v) { return std::min(v + 16.0 * (rounding(0) * v + underflow(0)), 1.0); };
  switch (phi) {
    case NormFormula::Phi::tanh: return std::isnan(u) ? 1.0 : above(std::tanh(u));
    case NormFormula::Phi::erf: return std::isnan(u) ? 1.0 : above(std::erf(u));
    case NormFormula::Phi::none: break;
  }
  return std::isnan(u) ? infinity : u;
}

double largest_slope(NormFormula::Phi phi) {
  return phi == NormFormula::Phi::erf ? 2.0 * std::numbers::inv_sqrtpi * (1.0 + rounding(0)) : 1.0;
}

BoundedSet pointwise_normalised(const BoundedSet& x, const NormBound& norm) {
  const NormFormula::Phi phi = formula_of(norm.kind).phi;
  const Vector bias = norm.bias.size() > 0 ? norm.bias : Vector::Zero(x.size());
  BoundedSet y{Vector(x.size()), Vector(x.size()), {}};
  Vector hat(x.size());
  for (Index k = 0; k < x.size(); ++k) {
    const PhiRange reach = phi_range(x.low[k], x.high[k], norm.alpha,
                                     [&](double m) { return phi_magnitude(phi, phi_input(norm.alpha, m)); });
    hat[k] = std::max(reach.up, reach.down);
    const double gain = norm.gain[k];
    const double above = gain >= 0.0 ? gain * reach.up : -gain * reach.down;
    const double below = gain >= 0.0 ? gain * reach.down : -gain * reach.up;
    const double size = std::abs(bias[k]) + above + below;
    const double slack = size == 0.0 ? 0.0 : rounding(0) * size + underflow(0);
    y.low[k] = gain == 0.0 ? bias[k] : bias[k] - below - slack;
    y.high[k] = gain == 0.0 ? bias[k] : bias[k] + above + slack;
  }
  const double radius = std::min(norm_of(hat), outward(phi_input(norm.alpha, x.norm()) * largest_slope(phi)));
  if (std::isfinite(radius)) {
    y.ellipsoid = ellipsoid_around(bias, norm.gain * (radius * (1.0 + rounding(0))));
    y.ellipsoid->error = (rounding(0) * y.ellipsoid->axes.cwiseAbs().array() + underflow(0)).matrix();
  }
  return cleaned(std::move(y));
}

// αx has relative error u from its rounding and u from the rounding of α. φ inherits at most that relative error, since
// uφ'(u) ≤ φ(u), plus 8 roundings as for activations, so a computed φ may exceed 1. Gain and bias: as for other norms.
BoundedSet ComputedOps::pointwise_normalised(const BoundedSet& x, const NormBound& norm) {
  if (exact_) return theory::pointwise_normalised(x, norm);
  const NormFormula::Phi phi = formula_of(norm.kind).phi;
  const bool is_bounded = phi != NormFormula::Phi::none;
  const double unit_roundoff = std::max(u_, sum_u_);
  const double tiny = eta_ + sum_eta_;
  const auto input_bound = [&](double m) {
    return is_bounded ? outward(phi_input(norm.alpha, m) * (1.0 + 4.0 * unit_roundoff) + tiny) : m;
  };
  const auto phi_bound = [&](double m) {
    const double input = input_bound(m);
    if (!is_bounded) return input;
    return outward(phi_magnitude(phi, input) * (1.0 + 8.0 * unit_roundoff) + tiny);
  };
  const double growth = (1.0 + u_) * (1.0 + 2.0 * u_) * (1.0 + sum_u_) * (1.0 + sum_u_) * (1.0 + rounding(16));
  const Vector bias = norm.bias.size() > 0 ? norm.bias : Vector::Zero(x.size());
  const Vector magnitude = x.magnitude();
  BoundedSet y{Vector(x.size()), Vector(x.size()), {}};
  Vector error(x.size());
  Vector hat(x.size());
  for (Index k = 0; k < x.size(); ++k) {
    const PhiRange reach = phi_range(x.low[k], x.high[k], norm.alpha, phi_bound);
    const double gain = norm.gain[k];
    const double size = std::abs(gain);
    hat[k] = std::max(reach.up, reach.down);
    error[k] = outward(4.0 * ((size + eta_) * tiny + eta_ * hat[k] + tiny), 8);
    if (is_bounded) record(Signal::normalised, input_bound(magnitude[k]));
    record(Signal::normalised, hat[k]);
    record(Signal::normalised, size == 0.0 ? error[k] : outward(size * hat[k] * growth + error[k]));
    const auto output_bound = [&](double reached) {
      return size == 0.0 ? error[k] : outward(size * reached * growth + error[k]);
    };
    y.low[k] = bias[k] - output_bound(gain >= 0.0 ? reach.down : reach.up) - rounding(0) * std::abs(bias[k]);
    y.high[k] = bias[k] + output_bound(gain >= 0.0 ? reach.up : reach.down) + rounding(0) * std::abs(bias[k]);
  }
  const double root = std::sqrt(static_cast<double>(x.size()));
  const double ball_radius = outward((phi_input(norm.alpha, x.norm()) * (1.0 + 4.0 * unit_roundoff) + tiny * root) *
                                         largest_slope(phi) * (1.0 + 8.0 * unit_roundoff) +
                                     tiny * root);
  const double radius = std::min(norm_of(hat), ball_radius);
  if (std::isfinite(radius)) y.ellipsoid = Ellipsoid{bias, norm.gain * (radius * growth), error, false};
  y = cleaned(std::move(y));
  return norm.bias.size() > 0 ? stored(std::move(y)) : y;
}

}  // namespace periscope::theory
