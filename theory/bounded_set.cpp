#include "theory/bounded_set.h"

#include <boost/math/tools/minima.hpp>

#include <limits>
#include <stdexcept>

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

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

bool is_finite(const Ellipsoid& e) {
  return std::isfinite(largest_of(e.centre)) && std::isfinite(largest_of(e.axes)) && std::isfinite(largest_of(e.error));
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

/// Where φ is least, to within `near`, and a number just below its value there.
struct Minimum {
  double at;
  double value;
};
constexpr double near = 1e-6;

/// Each φ but ReLU has one minimum in (−2, 0) and |φ''| ≤ 1 there. Brent's method stops within 2⁻²⁴ of the place that
/// computed values call the lowest, and those, off by some 1e-15, call no place lowest that is more than 1e-7 from the
/// true one. `near` is several times that, so the least value lies at most near²/2 below the value found; `activated`
/// adds what rounding did to a value.
Minimum minimum_of(Activation kind) {
  if (kind == Activation::relu) return {0.0, 0.0};
  const auto [at, value] = boost::math::tools::brent_find_minima([kind](double x) { return activation_at(kind, x); },
                                                                 -2.0, 0.0, std::numeric_limits<double>::digits / 2);
  return {at, value - 0.5 * near * near};
}

Interval activated(Activation kind, const Minimum& least, const Interval& x) {
  const auto at = [kind](double u) { return std::isinf(u) ? std::max(u, 0.0) : activation_at(kind, u); };
  double low = least.value;
  if (x.low > least.at + near) low = std::max(low, at(x.low));
  if (x.high < least.at - near) low = std::max(low, at(x.high));
  const double high = std::max(at(x.low), at(x.high));
  const auto allowance = [](double v) {
    return std::isinf(v) ? 0.0 : 16.0 * (rounding(0) * std::abs(v) + underflow(0));
  };
  return {low - allowance(low), high + allowance(high)};
}

}  // namespace

double normalised_magnitude(double m, double features, double eps) {
  if (!(m > 0.0)) return std::isnan(m) ? std::sqrt(features) : 0.0;
  const double root = std::sqrt(features);
  if (std::isinf(m) || eps == 0.0) return root * (1.0 + rounding(8));
  return root * std::min(m / std::hypot(m, std::sqrt(eps) * root), 1.0) * (1.0 + rounding(8));
}

Ellipsoid ellipsoid_around(const Vector& centre, const Vector& axes, bool centred) {
  return {centre, axes, Vector::Zero(centre.size()), centred};
}

double BoundedSet::norm() const {
  double bound = norm_of(magnitude());
  if (ellipsoid) {
    const double far = norm_of(ellipsoid->centre) + largest_of(ellipsoid->axes) + norm_of(ellipsoid->error);
    if (far < bound) bound = far;
  }
  return outward(bound);
}

BoundedSet ball(const Vector& m, double radius) {
  return cleaned({-m, m, ellipsoid_around(Vector::Zero(m.size()), Vector::Constant(m.size(), radius))});
}

BoundedSet point(const Vector& x) { return {x, x, ellipsoid_around(x, Vector::Zero(x.size()))}; }

BoundedSet unbounded(Index n) { return {Vector::Constant(n, -infinity), Vector::Constant(n, infinity), {}}; }

BoundedSet cleaned(BoundedSet x) {
  for (Index k = 0; k < x.size(); ++k) {
    if (!(x.low[k] < infinity)) x.low[k] = -infinity;
    if (!(x.high[k] > -infinity)) x.high[k] = infinity;
  }
  if (x.ellipsoid && !is_finite(*x.ellipsoid)) x.ellipsoid.reset();
  return x;
}

BoundedSet widened(BoundedSet x, const Vector& error) {
  const Vector more = error + rounding(0) * (error + x.magnitude()) + Vector::Constant(x.size(), underflow(0));
  x.low -= more;
  x.high += more;
  if (x.ellipsoid) x.ellipsoid->error = (x.ellipsoid->error + error) * (1.0 + rounding(0));
  return cleaned(std::move(x));
}

BoundedSet shifted(BoundedSet x, const Vector& b) {
  const Vector lost = rounding(0) * (x.magnitude() + b.cwiseAbs());
  x.low += b - lost;
  x.high += b + lost;
  if (x.ellipsoid) {
    x.ellipsoid->error += rounding(0) * (x.ellipsoid->centre.cwiseAbs() + b.cwiseAbs() + x.ellipsoid->error);
    x.ellipsoid->centre += b;
  }
  return cleaned(std::move(x));
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
  const bool layer = norm.kind == NormKind::layer;
  const auto d = static_cast<double>(x.size());
  const BoundedSet box = layer ? without_mean(x) : x;
  const double features = layer ? d - 1.0 : d;
  const double radius = std::min(x.norm(), BoundedSet{box.low, box.high, {}}.norm());
  const double most = normalised_magnitude(radius, d, norm.eps);
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
  // Axes that are rounded feature by feature would have Σu = 0 no longer.
  y.ellipsoid->error = (rounding(0) * y.ellipsoid->axes.cwiseAbs().array() + underflow(0)).matrix();
  return cleaned(std::move(y));
}

LinearImage image_and_sums(const RowMatrix& w, const BoundedSet& x) {
  using RowVector = Eigen::RowVectorXd;
  const Index n = w.cols();
  const bool box = std::isfinite(largest_of(x.low)) && std::isfinite(largest_of(x.high));
  const Vector middle = 0.5 * x.low + 0.5 * x.high;
  const Vector half = (x.high - middle).cwiseMax(middle - x.low) * (1.0 + rounding(0));
  const Vector far = x.magnitude();
  LinearImage y{{Vector(w.rows()), Vector(w.rows()), {}}, Vector(w.rows())};
#pragma omp parallel for schedule(static) if (w.size() > (1 << 16))
  for (Index k = 0; k < w.rows(); ++k) {
    const RowVector row = w.row(k);
    const RowVector size = row.cwiseAbs();
    Interval image;
    double absolute = infinity;
    const auto meet = [&](double centre, double radius, double total, double sum) {
      const double reach = radius + rounding(n) * total + underflow(n);
      if (!std::isfinite(centre) || !std::isfinite(reach)) return;
      image = {std::max(image.low, centre - reach), std::min(image.high, centre + reach)};
      if (const double bound = outward(sum, n); bound < absolute) absolute = bound;
    };
    if (row.isZero(0.0)) meet(0.0, 0.0, 0.0, 0.0);
    if (box) {
      const double radius = size.dot(half);
      meet(row.dot(middle), radius, radius + size.dot(middle.cwiseAbs()), size.dot(far));
    }
    if (x.ellipsoid) {
      const Ellipsoid& e = *x.ellipsoid;
      RowVector over = row.cwiseProduct(e.axes.transpose());
      const double all = norm_of(over);
      if (e.centred) over.array() -= over.mean();
      const double centres = size.dot(e.centre.cwiseAbs());
      const double errors = size.dot(e.error);
      meet(row.dot(e.centre), norm_of(over) + errors, all + centres + errors, all + centres + errors);
    }
    y.set.low[k] = image.low;
    y.set.high[k] = image.high;
    y.absolute[k] = absolute;
  }
  return y;
}

BoundedSet linear_image(const RowMatrix& w, const Vector& bias, const BoundedSet& x) {
  BoundedSet y = image_and_sums(w, x).set;
  return bias.size() > 0 ? shifted(std::move(y), bias) : y;
}

MatrixOver matrix_over(const RowMatrix& w, const Ellipsoid& e) {
  MatrixOver over{w * e.axes.asDiagonal(), 0.0};
  over.lost = outward(rounding(w.cols()) * norm_of(over.matrix), w.size());
  if (e.centred) over.matrix.colwise() -= over.matrix.rowwise().mean().eval();
  return over;
}

Centre centre_of(const RowMatrix& w, const Ellipsoid& e) {
  const RowMatrix size = w.cwiseAbs();
  const Vector lost = rounding(w.cols()) * (size * e.centre.cwiseAbs());
  const Vector error = (lost + size * e.error) * (1.0 + rounding(w.cols()));
  return {w * e.centre, (error.array() + underflow(w.cols())).matrix()};
}

BoundedSet scaled(double k, const BoundedSet& x) {
  if (k == 0.0) return point(Vector::Zero(x.size()));
  const Vector a = k * x.low;
  const Vector b = k * x.high;
  const auto slack = [&](const Vector& v) { return (rounding(0) * v.cwiseAbs().array() + underflow(0)).matrix(); };
  BoundedSet y{a.cwiseMin(b) - slack(a.cwiseMin(b)), a.cwiseMax(b) + slack(a.cwiseMax(b)), x.ellipsoid};
  if (y.ellipsoid) {
    Ellipsoid& e = *y.ellipsoid;
    e.centre *= k;
    e.axes *= k;
    e.error = std::abs(k) * e.error * (1.0 + rounding(0)) + slack(e.centre) + slack(e.axes);
  }
  return cleaned(std::move(y));
}

BoundedSet weighted_sum(double alpha, const BoundedSet& x, double beta, const BoundedSet& y) {
  const BoundedSet a = alpha == 1.0 ? x : scaled(alpha, x);
  const BoundedSet b = beta == 1.0 ? y : scaled(beta, y);
  const Vector slack = rounding(0) * (a.magnitude() + b.magnitude());
  BoundedSet sum{a.low + b.low - slack, a.high + b.high + slack, {}};
  if (!a.ellipsoid || !b.ellipsoid) return cleaned(std::move(sum));
  const Ellipsoid& e = *a.ellipsoid;
  const Ellipsoid& f = *b.ellipsoid;
  const double s = norm_of(e.axes);
  const double t = norm_of(f.axes);
  Ellipsoid merged{e.centre + f.centre, {}, e.error + f.error, false};
  merged.error += rounding(0) * (merged.error + e.centre.cwiseAbs() + f.centre.cwiseAbs());
  constexpr double negligible = 1e-30;
  if (s <= negligible * t || t <= negligible * s) {
    // The smaller one's box does.
    const bool first = s <= negligible * t;
    merged.axes = first ? f.axes : e.axes;
    merged.centred = first ? f.centred : e.centred;
    merged.error += (first ? e.axes : f.axes).cwiseAbs();
  } else {
    const double k = std::sqrt(1.0 + t / s);
    const double l = std::sqrt(1.0 + s / t);
    merged.axes = e.axes.binaryExpr(f.axes, [=](double p, double q) { return outward(std::hypot(p * k, q * l), 8); });
  }
  sum.ellipsoid = std::move(merged);
  return cleaned(std::move(sum));
}

BoundedSet within(const BoundedSet& x, const BoundedSet& box) {
  return {x.low.cwiseMax(box.low), x.high.cwiseMin(box.high), x.ellipsoid};
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
        const double lost = zero || std::isinf(p) ? 0.0 : rounding(0) * std::abs(p) + underflow(0);
        low = std::min(low, p - lost);
        high = std::max(high, p + lost);
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
