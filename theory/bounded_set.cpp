#include "theory/bounded_set.h"

#include <algorithm>
#include <cmath>

namespace periscope::theory {
namespace {

using Index = Eigen::Index;
using RowVector = Eigen::RowVectorXd;

/// centre ± radius, rounded outwards.
struct Interval {
  double low = -infinity;
  double high = infinity;

  static Interval around(double centre, double radius, double allowance) {
    return {centre - radius - allowance, centre + radius + allowance};
  }
  [[nodiscard]] Interval and_also(const Interval& other) const {
    return {std::max(low, other.low), std::min(high, other.high)};
  }
};

bool is_finite(const Vector& x) { return std::isfinite(x.cwiseAbs().maxCoeff()); }

/// w·x over the box.
Interval over_box(const RowVector& w, double bias, const Vector& middle, const Vector& half) {
  const double centre = w.dot(middle) + bias;
  const double radius = w.cwiseAbs().dot(half);
  const double magnitude = radius + w.cwiseAbs().dot(middle.cwiseAbs()) + std::abs(bias);
  return Interval::around(centre, radius, rounding(w.size()) * magnitude);
}

/// w·x over the ellipsoid.
Interval over_ellipsoid(const RowVector& w, double bias, const Ellipsoid& e) {
  RowVector over = w.cwiseProduct(e.axes.transpose());
  const double all = over.norm();
  if (e.centred) over.array() -= over.mean();
  const double magnitude = all + w.cwiseAbs().dot(e.centre.cwiseAbs()) + std::abs(bias);
  return Interval::around(w.dot(e.centre) + bias, over.norm(), rounding(w.size()) * magnitude);
}

double activation_at(Activation kind, double x) {
  switch (kind) {
    case Activation::relu: return std::max(x, 0.0);
    case Activation::gelu: return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case Activation::silu: return x / (1.0 + std::exp(-x));
    case Activation::gelu_tanh: return x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  throw std::logic_error("unknown activation");
}

/// Where φ is least, and a number just below its value there.
struct Minimum {
  double at;
  double value;
};

Minimum minimum_of(Activation kind) {
  switch (kind) {
    case Activation::relu: return {0.0, 0.0};
    case Activation::gelu: return {-0.751791525, -0.16997120748};
    case Activation::silu: return {-1.278464543, -0.27846454277};
    case Activation::gelu_tanh: return {-0.752461423, -0.17004075058};
  }
  throw std::logic_error("unknown activation");
}

Interval activated(Activation kind, const Interval& x) {
  const Minimum least = minimum_of(kind);
  constexpr double near = 1e-4;  // φ is flat there: the minimum's value serves
  const auto at = [kind](double u) { return std::isinf(u) ? std::max(u, 0.0) : activation_at(kind, u); };
  double low = least.value;
  if (x.low > least.at + near) low = std::max(low, at(x.low));
  if (x.high < least.at - near) low = std::max(low, at(x.high));
  const double high = std::max(at(x.low), at(x.high));
  const auto allowance = [](double v) { return std::isinf(v) ? 0.0 : 16.0 * rounding(0) * std::abs(v); };
  return {low - allowance(low), high + allowance(high)};
}

template <class Function>
BoundedSet by_feature(const BoundedSet& x, Function function) {
  BoundedSet y{x.low, x.high, {}};
  for (Index k = 0; k < x.size(); ++k) {
    const Interval image = function(Interval{x.low[k], x.high[k]}, k);
    y.low[k] = image.low;
    y.high[k] = image.high;
  }
  return y;
}

/// The two sums of squares behind a norm: how far feature k can be from the mean (or 0) and how much the mean square
/// is at least when it is.
struct Normaliser {
  double features;  ///< D, or D−1 for LayerNorm
  double eps;
  /// g(m) = m/√(m²/features + ε).
  [[nodiscard]] double operator()(double m) const {
    const double at = m <= 0.0 ? 0.0 : std::isinf(m) ? std::sqrt(features) : m / std::sqrt(m * m / features + eps);
    return std::min(at, std::sqrt(features)) * (1.0 + rounding(8));
  }
};

/// The box of x minus its mean.
BoundedSet without_mean(const BoundedSet& x) {
  const auto n = static_cast<double>(x.size());
  const double lows = x.low.sum();
  const double highs = x.high.sum();
  const double slack = rounding(x.size()) * (x.low.cwiseAbs().sum() + x.high.cwiseAbs().sum());
  return by_feature(x, [&](const Interval& k, Index) -> Interval {
    if (!std::isfinite(slack)) return {};
    return {k.low - (k.low + highs - k.high) / n - slack, k.high - (k.high + lows - k.low) / n + slack};
  });
}

}  // namespace

double rounding(Index n) { return (static_cast<double>(n) + 8.0) * std::numeric_limits<double>::epsilon(); }

double BoundedSet::norm() const {
  double bound = magnitude().norm();
  if (std::isnan(bound)) bound = infinity;
  if (ellipsoid) bound = std::min(bound, ellipsoid->centre.norm() + ellipsoid->axes.cwiseAbs().maxCoeff());
  return bound * (1.0 + rounding(size()));
}

BoundedSet ball(const Vector& m, double radius) {
  return {-m, m, Ellipsoid{Vector::Zero(m.size()), Vector::Constant(m.size(), radius)}};
}

BoundedSet point(const Vector& x) { return {x, x, Ellipsoid{x, Vector::Zero(x.size())}}; }

BoundedSet normalised(const BoundedSet& x, const NormBound& norm) {
  const bool layer = norm.kind == NormKind::layer;
  const auto d = static_cast<double>(x.size());
  const BoundedSet box = layer ? without_mean(x) : x;
  const Normaliser g{layer ? d - 1.0 : d, norm.eps};
  const double radius = std::min(x.norm(), BoundedSet{box.low, box.high, {}}.norm());
  const double shrink =
      std::isinf(radius) || norm.eps == 0.0 ? 1.0 : radius / std::sqrt(radius * radius + d * norm.eps);
  const Vector bias = norm.bias.size() > 0 ? norm.bias : Vector::Zero(x.size());
  BoundedSet y = by_feature(box, [&](const Interval& k, Index i) -> Interval {
    const double up = g(std::max(k.high, 0.0));
    const double down = g(std::max(-k.low, 0.0));
    const double gain = norm.gain[i];
    const double above = gain >= 0.0 ? gain * up : -gain * down;
    const double below = gain >= 0.0 ? gain * down : -gain * up;
    const double slack = rounding(0) * (std::abs(bias[i]) + above + below);
    return {bias[i] - below - slack, bias[i] + above + slack};
  });
  y.ellipsoid = Ellipsoid{bias, norm.gain * (std::sqrt(d) * std::min(shrink, 1.0) * (1.0 + rounding(0))), layer};
  return y;
}

BoundedSet linear_image(const RowMatrix& w, const Vector& bias, const BoundedSet& x) {
  const bool box = is_finite(x.low) && is_finite(x.high);
  const Vector middle = 0.5 * (x.low + x.high);
  const Vector half = (x.high - middle).cwiseMax(middle - x.low);
  BoundedSet y{Vector(w.rows()), Vector(w.rows()), {}};
#pragma omp parallel for schedule(static) if (w.size() > (1 << 16))
  for (Index k = 0; k < w.rows(); ++k) {
    const RowVector row = w.row(k);
    const double b = bias.size() > 0 ? bias[k] : 0.0;
    Interval image;
    if (row.isZero(0.0)) image = {b, b};
    if (box) image = image.and_also(over_box(row, b, middle, half));
    if (x.ellipsoid) image = image.and_also(over_ellipsoid(row, b, *x.ellipsoid));
    y.low[k] = image.low;
    y.high[k] = image.high;
  }
  return y;
}

MatrixOver matrix_over(const RowMatrix& w, const Ellipsoid& e) {
  MatrixOver over{w * e.axes.asDiagonal(), 0.0};
  over.lost = rounding(w.cols()) * over.matrix.norm();
  if (e.centred) over.matrix.colwise() -= over.matrix.rowwise().mean().eval();
  return over;
}

BoundedSet scaled(double k, const BoundedSet& x) {
  if (k == 0.0) return point(Vector::Zero(x.size()));
  const Vector a = k * x.low;
  const Vector b = k * x.high;
  BoundedSet y{a.cwiseMin(b), a.cwiseMax(b), x.ellipsoid};
  if (y.ellipsoid) {
    y.ellipsoid->centre *= k;
    y.ellipsoid->axes *= k;
  }
  return y;
}

BoundedSet weighted_sum(double alpha, const BoundedSet& x, double beta, const BoundedSet& y) {
  const BoundedSet a = scaled(alpha, x);
  const BoundedSet b = scaled(beta, y);
  const Vector slack = rounding(0) * (a.magnitude() + b.magnitude());
  BoundedSet sum{a.low + b.low - slack, a.high + b.high + slack, {}};
  if (!a.ellipsoid || !b.ellipsoid) return sum;
  const Ellipsoid& e = *a.ellipsoid;
  const Ellipsoid& f = *b.ellipsoid;
  const double s = e.axes.norm();
  const double t = f.axes.norm();
  // Rounding of the centres is put into the axes.
  const double centres = rounding(e.axes.size()) * (e.centre.norm() + f.centre.norm());
  Ellipsoid merged{e.centre + f.centre, {}, false};
  if (s == 0.0 || t == 0.0) {
    merged.axes = s == 0.0 ? f.axes : e.axes;
    merged.centred = s == 0.0 ? f.centred : e.centred;
    if (centres > 0.0) merged = {merged.centre, (merged.axes.cwiseAbs().array() + centres).matrix(), false};
  } else {
    merged.axes = ((s + t) * (e.axes.cwiseAbs2() / s + f.axes.cwiseAbs2() / t)).cwiseSqrt();
    merged.axes = (merged.axes.array() * (1.0 + rounding(merged.axes.size())) + centres).matrix();
  }
  sum.ellipsoid = std::move(merged);
  return sum;
}

BoundedSet within(const BoundedSet& x, const BoundedSet& box) {
  return {x.low.cwiseMax(box.low), x.high.cwiseMin(box.high), x.ellipsoid};
}

BoundedSet activated(Activation activation, const BoundedSet& x) {
  BoundedSet y = by_feature(x, [&](const Interval& k, Index) { return activated(activation, k); });
  const double radius = x.norm() * (1.0 + rounding(0));
  if (std::isfinite(radius)) y.ellipsoid = Ellipsoid{Vector::Zero(x.size()), Vector::Constant(x.size(), radius)};
  return y;
}

BoundedSet interval_product(const BoundedSet& x, const BoundedSet& y) {
  return by_feature(x, [&](const Interval& a, Index k) -> Interval {
    double low = infinity;
    double high = -infinity;
    for (const double u : {a.low, a.high}) {
      for (const double v : {y.low[k], y.high[k]}) {
        const double p = u == 0.0 || v == 0.0 ? 0.0 : u * v;
        low = std::min(low, p - rounding(0) * std::abs(p));
        high = std::max(high, p + rounding(0) * std::abs(p));
      }
    }
    return {low, high};
  });
}

BoundedSet soft_capped(double cap, const BoundedSet& x) {
  return by_feature(x, [&](const Interval& k, Index) -> Interval {
    const auto at = [cap](double u) { return std::isinf(u) ? std::copysign(cap, u) : cap * std::tanh(u / cap); };
    const double slack = 16.0 * rounding(0) * cap;
    return {std::max(at(k.low) - slack, -cap), std::min(at(k.high) + slack, cap)};
  });
}

}  // namespace periscope::theory
