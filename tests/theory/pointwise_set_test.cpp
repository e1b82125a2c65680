#include <cmath>
#include <random>

#include "tests/support/doctest.h"
#include "theory/certify/computed_ops.h"
#include "theory/certify/rounded_parameters.h"
#include "theory/norms/norm_set.h"

/// T17, T24: the sets of pointwise norms and of the L2 norm.
namespace periscope::theory {
namespace {

using doctest::Approx;
using Index = Eigen::Index;

constexpr Index width = 7;

Vector normals(Index n, unsigned seed, double scale = 1.0) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  return Vector::NullaryExpr(n, [&] { return scale * normal(engine); });
}
BoundedSet anything(Index n) { return {Vector::Constant(n, -infinity), Vector::Constant(n, infinity), {}}; }

double bent_exactly(NormKind kind, double u) {
  return kind == NormKind::dyt ? std::tanh(u) : kind == NormKind::derf ? std::erf(u) : u;
}
Vector plain(const NormBound& norm, const Vector& x) {
  Vector y(x.size());
  for (Index k = 0; k < x.size(); ++k) y[k] = norm.gain[k] * bent_exactly(norm.kind, norm.alpha * x[k]) + norm.bias[k];
  return y;
}

TEST_CASE("T17: DyT and Derf put any input into the box |gain| around the bias, which they attain") {
  for (const NormKind kind : {NormKind::dyt, NormKind::derf}) {
    const NormBound norm{kind, 0.0, normals(width, 1), normals(width, 2), 0.5};
    const Vector bound = normalised(anything(width), norm).magnitude();
    for (Index k = 0; k < width; ++k) {
      const double reached = std::abs(norm.gain[k]) + std::abs(norm.bias[k]);
      CHECK(bound[k] >= reached);
      CHECK(bound[k] == Approx(reached).epsilon(1e-12));
    }
  }
}

TEST_CASE(
    "T17: of a bounded input a pointwise norm's bounds are attained at its corners, for an alpha of either sign") {
  for (const NormKind kind : {NormKind::dyt, NormKind::derf, NormKind::none}) {
    for (const double alpha : {0.3, -2.0}) {
      if (kind == NormKind::none && alpha < 0.0) continue;
      const NormBound norm{kind, 0.0, normals(width, 3), normals(width, 4), kind == NormKind::none ? 1.0 : alpha};
      const Vector low = -normals(width, 5).cwiseAbs();
      const Vector high = normals(width, 6).cwiseAbs();
      const BoundedSet y = normalised({low, high, {}}, norm);
      for (Index k = 0; k < width; ++k) {
        const double a = plain(norm, low)[k];
        const double b = plain(norm, high)[k];
        CHECK(y.low[k] <= std::min(a, b));
        CHECK(y.high[k] >= std::max(a, b));
        CHECK(y.low[k] == Approx(std::min(a, b)).epsilon(1e-12));
        CHECK(y.high[k] == Approx(std::max(a, b)).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("T17: a small ball is mapped into a small ellipsoid around the bias") {
  for (const NormKind kind : {NormKind::dyt, NormKind::derf}) {
    const NormBound norm{kind, 0.0, normals(width, 7), normals(width, 8), 0.5};
    const BoundedSet y = normalised(ball(Vector::Constant(width, 1e-3), 1e-3), norm);
    REQUIRE(y.ellipsoid.has_value());
    const double slope = kind == NormKind::dyt ? 1.0 : 2.0 / std::sqrt(M_PI);
    for (unsigned seed = 0; seed < 50; ++seed) {
      Vector x = normals(width, 100 + seed);
      x *= 1e-3 / x.norm();
      const Vector direction = normals(width, 200 + seed);
      const Vector axes = y.ellipsoid->axes;
      const double support = direction.cwiseProduct(axes).norm() + direction.cwiseAbs().dot(y.ellipsoid->error);
      CHECK(direction.dot(plain(norm, x) - norm.bias) <= support);
    }
    CHECK(std::abs(y.ellipsoid->axes[0]) == Approx(std::abs(norm.gain[0]) * slope * 0.5e-3).epsilon(1e-6));
  }
}

TEST_CASE("T17: the L2 norm puts any input into the ball of its gains, which it attains") {
  const NormBound norm{NormKind::l2, 0.0, normals(width, 9), {}, 1.0};
  const BoundedSet y = normalised(anything(width), norm);
  for (Index k = 0; k < width; ++k) {
    CHECK(y.magnitude()[k] >= std::abs(norm.gain[k]));
    CHECK(y.magnitude()[k] == Approx(std::abs(norm.gain[k])).epsilon(1e-9));
    CHECK(std::abs(y.ellipsoid->axes[k]) == Approx(std::abs(norm.gain[k])).epsilon(1e-9));
  }
  // ‖x‖ = 3 and eps = 16: x̂ has length 3/5.
  const BoundedSet small =
      normalised(ball(Vector::Constant(width, 3.0), 3.0), {NormKind::l2, 16.0, Vector::Ones(width), {}});
  CHECK(small.magnitude()[0] == Approx(0.6).epsilon(1e-9));
  CHECK(small.ellipsoid->axes[0] == Approx(0.6).epsilon(1e-9));
}

double r(const NumberFormat& f, double x) { return rounded_to(f, x); }

Vector rounded_pointwise(const NumberFormat& f, const NormBound& norm, const Vector& x) {
  Vector y(x.size());
  for (Index k = 0; k < x.size(); ++k) {
    double value = x[k];
    if (norm.kind != NormKind::none) value = r(f, bent_exactly(norm.kind, r(f, norm.alpha * value)));
    value = r(f, norm.gain[k] * value);
    y[k] = norm.bias.size() > 0 ? r(f, value + norm.bias[k]) : value;
  }
  return y;
}

Vector rounded_l2(const NumberFormat& f, const NormBound& norm, const Vector& x) {
  double sum = 0.0;
  for (const double v : x) sum = r(f, sum + r(f, v * v));
  const double length = r(f, std::sqrt(r(f, sum + r(f, norm.eps))));
  Vector y(x.size());
  for (Index k = 0; k < x.size(); ++k) y[k] = r(f, norm.gain[k] * r(f, x[k] / length));
  return y;
}

TEST_CASE("computed pointwise and L2 norms stay in their sets, for inputs of every size") {
  for (const NumberFormat& f : number_formats) {
    if (f.precision < 8) continue;
    for (const NormKind kind : {NormKind::dyt, NormKind::derf, NormKind::none, NormKind::l2}) {
      for (unsigned i = 0; i < 60; ++i) {
        const double size = std::ldexp(1.0, static_cast<int>(i % 12) - 8);
        const Index d = i % 2 == 0 ? 64 : 3;
        const auto in_format = [&](Vector v) { return Vector(v.unaryExpr([&](double t) { return r(f, t); })); };
        const Vector gain = in_format(normals(d, 11 + i));
        const Vector bias = kind == NormKind::l2 || i % 3 == 0 ? Vector() : in_format(normals(d, 71 + i));
        const Vector x = in_format(normals(d, 131 + i, size));
        const NormBound norm{kind, 1e-3, gain, bias, kind == NormKind::none ? 1.0 : r(f, i % 5 == 0 ? -1.7 : 0.5)};
        const double reach = 8.0 * size;
        ComputedOps ops(run_arithmetic(Arithmetic::pure, f), 1);
        const BoundedSet set =
            ops.normalised(ball(Vector::Constant(d, reach), reach * std::sqrt(static_cast<double>(d))), norm);
        const Vector y = kind == NormKind::l2 ? rounded_l2(f, norm, x) : rounded_pointwise(f, norm, x);
        CAPTURE(std::string(f.name));
        CAPTURE(i);
        CHECK((y.array() >= set.low.array()).all());
        CHECK((y.array() <= set.high.array()).all());
        if (set.ellipsoid) {
          const Vector direction = normals(d, 191 + i);
          const Ellipsoid& e = *set.ellipsoid;
          CHECK(direction.dot(y - e.centre) <=
                direction.cwiseProduct(e.axes).norm() + direction.cwiseAbs().dot(e.error) + 1e-12);
        }
      }
    }
  }
}

TEST_CASE("a computed tanh may pass 1 by roundings, and its bound by a few") {
  const NumberFormat bf16 = number_formats[1];
  ComputedOps ops(run_arithmetic(Arithmetic::pure, bf16), 1);
  const BoundedSet y = ops.normalised(anything(3), {NormKind::dyt, 0.0, Vector::Ones(3), {}, 0.5});
  CHECK(y.high[0] > 1.0);
  CHECK(y.high[0] < 1.0 + 16.0 * bf16.unit_roundoff());
}

}  // namespace
}  // namespace periscope::theory
