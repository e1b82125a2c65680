// Images of sets under elementwise functions and norms.
#include <boost/math/tools/minima.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "theory/certify/bounded_set.h"
#include "theory/norms/norm_set.h"

namespace periscope::theory {
namespace {

struct Interval {
  double low = -infinity;
  double high = infinity;
};

template <class Function>
BoundedSet by_feature(const BoundedSet& x, Function function) {
  BoundedSet y{x.low, x.high, {}};
  for (Index k = 0; k < x.size(); ++k) {
    const Interval image = function(Interval{x.low[k], x.high[k]}, k);
    y.low[k] = image.low;
    y.high[k] = image.high;
  }
  return cleaned(std::move(y));
}

double activation_at(Activation kind, double x) {
  switch (kind) {
    case Activation::relu: return std::max(x, 0.0);
    case Activation::gelu: return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case Activation::silu: return x / (1.0 + std::exp(-x));
    case Activation::sigmoid: break;  // handled by ComputedOps::sigmoid
    case Activation::gelu_tanh: return x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  throw std::logic_error("unknown activation");
}

/// Location of the minimum of φ, up to `location_error`, and a lower bound on its value.
struct Minimum {
  double at;
  double value;
};
constexpr double location_error = 1e-6;

/// Each φ except ReLU has one minimum in (−2, 0) and |φ''| ≤ 1 there. Brent's method stops within 2⁻²⁴ of the minimum
/// of the computed values. Their error of about 1e-15 moves that minimum by at most 1e-7, less than `location_error`,
/// so the true minimum is at most location_error²/2 below the value found. `activated` adds rounding errors.
Minimum minimum_of(Activation kind) {
  if (kind == Activation::relu) return {0.0, 0.0};
  const auto [at, value] = boost::math::tools::brent_find_minima([kind](double x) { return activation_at(kind, x); },
                                                                 -2.0, 0.0, std::numeric_limits<double>::digits / 2);
  return {at, value - 0.5 * location_error * location_error};
}

Interval activated(Activation kind, const Minimum& least, const Interval& x) {
  const auto at = [kind](double u) { return std::isinf(u) ? std::max(u, 0.0) : activation_at(kind, u); };
  double low = least.value;
  if (x.low > least.at + location_error) low = std::max(low, at(x.low));
  if (x.high < least.at - location_error) low = std::max(low, at(x.high));
  const double high = std::max(at(x.low), at(x.high));
  const auto value_error = [](double v) {
    return std::isinf(v) ? 0.0 : 16.0 * (rounding(0) * std::abs(v) + underflow(0));
  };
  return {low - value_error(low), high + value_error(high)};
}

}  // namespace

double normalised_magnitude(double m, double features, double eps) {
  if (!(m > 0.0)) return std::isnan(m) ? std::sqrt(features) : 0.0;
  const double root = std::sqrt(features);
  if (std::isinf(m) || eps == 0.0) return root * (1.0 + rounding(8));
  return root * std::min(m / std::hypot(m, std::sqrt(eps) * root), 1.0) * (1.0 + rounding(8));
}

BoundedSet without_mean(const BoundedSet& x) {
  const auto n = static_cast<double>(x.size());
  const double lows = x.low.sum();
  const double highs = x.high.sum();
  const double slack = outward(rounding(x.size()) * (x.low.cwiseAbs().sum() + x.high.cwiseAbs().sum()), x.size());
  return by_feature(x, [&](const Interval& k, Index) -> Interval {
    if (!std::isfinite(slack)) return {};
    return {k.low - (k.low + highs - k.high) / n - slack, k.high - (k.high + lows - k.low) / n + slack};
  });
}

BoundedSet normalised(const BoundedSet& x, const NormBound& norm) {
  if (is_pointwise(norm.kind)) return pointwise_normalised(x, norm);
  const bool layer = subtracts_mean(norm.kind);
  const auto d = static_cast<double>(x.size());
  const double count = formula_of(norm.kind).count(d);
  const BoundedSet box = layer ? without_mean(x) : x;
  const double features = layer ? d - 1.0 : count;
  const double radius = std::min(x.norm(), BoundedSet{box.low, box.high, {}}.norm());
  const double most = normalised_magnitude(radius, count, norm.eps);
  const Vector bias = norm.bias.size() > 0 ? norm.bias : Vector::Zero(x.size());
  BoundedSet y = by_feature(box, [&](const Interval& k, Index i) -> Interval {
    const double up = normalised_magnitude(std::max(k.high, 0.0), features, norm.eps);
    const double down = normalised_magnitude(std::max(-k.low, 0.0), features, norm.eps);
    const double gain = norm.gain[i];
    const double above = gain >= 0.0 ? gain * up : -gain * down;
    const double below = gain >= 0.0 ? gain * down : -gain * up;
    const double size = std::abs(bias[i]) + above + below;
    const double slack = size == 0.0 ? 0.0 : rounding(0) * size + underflow(0);
    return {bias[i] - below - slack, bias[i] + above + slack};
  });
  y.ellipsoid = ellipsoid_around(bias, norm.gain * (most * (1.0 + rounding(0))), layer);
  // The rounding of the axes is added to `error`, because rounding them elementwise would break Σu = 0.
  y.ellipsoid->error = (rounding(0) * y.ellipsoid->axes.cwiseAbs().array() + underflow(0)).matrix();
  return cleaned(std::move(y));
}

BoundedSet activated(Activation activation, const BoundedSet& x) {
  const Minimum least = minimum_of(activation);
  BoundedSet y = by_feature(x, [&](const Interval& k, Index) { return activated(activation, least, k); });
  const double radius = outward(x.norm());
  if (std::isfinite(radius)) {
    y.ellipsoid = ellipsoid_around(Vector::Zero(x.size()), Vector::Constant(x.size(), radius));
  }
  return y;
}

BoundedSet interval_product(const BoundedSet& x, const BoundedSet& y) {
  return by_feature(x, [&](const Interval& a, Index k) -> Interval {
    double low = infinity;
    double high = -infinity;
    for (const double u : {a.low, a.high}) {
      for (const double v : {y.low[k], y.high[k]}) {
        const bool zero = u == 0.0 || v == 0.0;
        const double p = zero ? 0.0 : u * v;
        const double slack = zero || std::isinf(p) ? 0.0 : rounding(0) * std::abs(p) + underflow(0);
        low = std::min(low, p - slack);
        high = std::max(high, p + slack);
      }
    }
    return {low, high};
  });
}

BoundedSet soft_capped(double cap, const BoundedSet& x) {
  return by_feature(x, [&](const Interval& k, Index) -> Interval {
    const auto at = [cap](double u) { return std::isinf(u) ? std::copysign(cap, u) : cap * std::tanh(u / cap); };
    const double slack = 16.0 * (rounding(0) * cap + underflow(0));
    return {std::max(at(k.low) - slack, -cap), std::min(at(k.high) + slack, cap)};
  });
}

}  // namespace periscope::theory
