#include "theory/certify/bounded_set.h"

#include "sim/base/first_exception.h"

namespace periscope::theory {
namespace {

bool is_finite(const Ellipsoid& e) {
  return std::isfinite(largest_of(e.centre)) && std::isfinite(largest_of(e.axes)) && std::isfinite(largest_of(e.error));
}

}  // namespace

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
  const Vector margin = error + rounding(0) * (error + x.magnitude()) + Vector::Constant(x.size(), underflow(0));
  x.low -= margin;
  x.high += margin;
  if (x.ellipsoid) x.ellipsoid->error = (x.ellipsoid->error + error) * (1.0 + rounding(0));
  return cleaned(std::move(x));
}

BoundedSet shifted(BoundedSet x, const Vector& b) {
  const Vector slack = rounding(0) * (x.magnitude() + b.cwiseAbs());
  x.low += b - slack;
  x.high += b + slack;
  if (x.ellipsoid) {
    x.ellipsoid->error += rounding(0) * (x.ellipsoid->centre.cwiseAbs() + b.cwiseAbs() + x.ellipsoid->error);
    x.ellipsoid->centre += b;
  }
  return cleaned(std::move(x));
}

LinearImage image_and_sums(const RowMatrix& w, const BoundedSet& x) {
  using RowVector = Eigen::RowVectorXd;
  const Index n = w.cols();
  const bool box = std::isfinite(largest_of(x.low)) && std::isfinite(largest_of(x.high));
  const Vector middle = 0.5 * x.low + 0.5 * x.high;
  const Vector half = (x.high - middle).cwiseMax(middle - x.low) * (1.0 + rounding(0));
  const Vector far = x.magnitude();
  LinearImage y{{Vector(w.rows()), Vector(w.rows()), {}}, Vector(w.rows())};
  FirstException failure;
#pragma omp parallel for schedule(static) if (w.size() > (1 << 16))
  for (Index k = 0; k < w.rows(); ++k) {
    failure.run([&] {
      const RowVector row = w.row(k);
      const RowVector size = row.cwiseAbs();
      double low = -infinity;
      double high = infinity;
      double absolute = infinity;
      const auto meet = [&](double centre, double radius, double total, double sum) {
        const double reach = radius + rounding(n) * total + underflow(n);
        if (!std::isfinite(centre) || !std::isfinite(reach)) return;
        low = std::max(low, centre - reach);
        high = std::min(high, centre + reach);
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
      y.set.low[k] = low;
      y.set.high[k] = high;
      y.absolute[k] = absolute;
    });
  }
  failure.rethrow();
  return y;
}

AxesImage axes_image(const RowMatrix& w, const Ellipsoid& e) {
  AxesImage over{w * e.axes.asDiagonal(), 0.0};
  over.error = outward(rounding(w.cols()) * norm_of(over.matrix), w.size());
  if (e.centred) over.matrix.colwise() -= over.matrix.rowwise().mean().eval();
  return over;
}

Centre centre_of(const RowMatrix& w, const Ellipsoid& e) {
  const RowMatrix size = w.cwiseAbs();
  const Vector slack = rounding(w.cols()) * (size * e.centre.cwiseAbs());
  const Vector error = (slack + size * e.error) * (1.0 + rounding(w.cols()));
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
    // One ellipsoid is negligibly small: add its bounding box to the error.
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

BoundedSet intersected(const BoundedSet& x, const BoundedSet& box) {
  return {x.low.cwiseMax(box.low), x.high.cwiseMin(box.high), x.ellipsoid};
}

}  // namespace periscope::theory
