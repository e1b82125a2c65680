#include "theory/certify/computed_ops.h"

#include <cmath>
#include <random>
#include <vector>

#include "sim/numerics/rounding.h"
#include "tests/support/doctest.h"
#include "theory/certify/rounded_parameters.h"

/// T24, op by op: tests that the rounding allowances of bounds are tight. Inputs whose roundings all have the same
/// direction use most of an allowance.
// A separate namespace, because test files are compiled several at a time.
namespace periscope::theory {
namespace {
namespace computed_ops {

using Index = Eigen::Index;

constexpr const NumberFormat& bf16 = number_formats[1];

Vector all(Index n, double x) { return Vector::Constant(n, x); }
double r(const NumberFormat& f, double x) { return rounded_to(f, x); }
ComputedOps ops_of(const NumberFormat& f, Index longest = 1) { return {run_arithmetic(Arithmetic::pure, f), longest}; }

/// Returns the used fraction of the allowance: (computed − exact)/(bound − exact), at most 1.
double used(double computed, double exact, double bound) {
  CHECK(computed <= bound);
  return (computed - exact) / (bound - exact);
}

double summed(const NumberFormat& f, const std::vector<double>& x) {
  double sum = 0.0;
  for (const double term : x) sum = r(f, sum + r(f, term));
  return sum;
}

/// Returns 1 followed by n − 1 equal terms.
std::vector<double> terms(Index n, double rest) {
  std::vector<double> x(static_cast<std::size_t>(n), rest);
  x[0] = 1.0;
  return x;
}

/// Returns terms just above u, for which every addition rounds up by nearly u. For n·u ≤ 1/8 partial sums stay below
/// the next power of two.
std::vector<double> terms_that_round_up(const NumberFormat& f, Index n) {
  return terms(n, f.unit_roundoff() * (1.0 + f.spacing_at_1()));
}

TEST_CASE("sums of products, averages of values and q·k: every addition rounds the same way") {
  for (const NumberFormat& f : {fp16, bf16}) {
    const double u = f.unit_roundoff();
    for (const Index n : {Index{8}, Index{16}, static_cast<Index>(0.125 / u)}) {
      INFO(f.name, " ", n);
      // The terms use (n − 1)u of the allowance κB = nu(1 + …)(1 + nu), which has another u for storing the sum.
      const double nu = static_cast<double>(n) * u;
      const double least = 0.99 * (nu - u) / (nu + u * (1.0 + nu)) / std::pow(1.0 + nu, 2);
      // Terms of exactly u do not change the running sum, because ties are rounded to even.
      for (const bool up : {true, false}) {
        const std::vector<double> x = up ? terms_that_round_up(f, n) : terms(n, u);
        const double sign = up ? 1.0 : -1.0;
        double exact = 0.0;
        for (const double term : x) exact += term;
        const double computed = sign * summed(f, x);
        const auto far = [&](const BoundedSet& y) { return up ? y.high[0] : -y.low[0]; };
        ComputedOps ops = ops_of(f, n);
        const BoundedSet of_products =
            ops.linear(RowMatrix::Ones(1, n), {}, point(Eigen::Map<const Vector>(x.data(), n)));
        CHECK(used(computed, sign * exact, far(of_products)) >= least);
        // Equal weights 1/n, n a power of two, and values n·x have exact products. The set of all tokens then equals
        // that of their average.
        const ComputedImage average = ops.weighted_values({}, 0, point(all(1, exact)));
        CHECK(used(computed, sign * exact, far(average.set)) >= least);
        CHECK(computed - sign * exact <= average.error[0]);
        if (!up) continue;
        // q = k with q_i k_i = x_i up to rounding, so that ‖q‖‖k‖ is the sum.
        const double root = std::sqrt(exact);
        CHECK(used(computed, exact, ops.score(exact, root, root, n, 1.0, 0.0).dot) >= least);
      }
    }
  }
}

TEST_CASE("underflowing products are rounded up to the smallest number; storing a sum rounds by half a unit") {
  constexpr Index n = 64;
  const double eta = fp16.smallest_subnormal();
  const double w = 0x1p-12;
  const double x = r(fp16, eta * 0x1p11 * (1.0 + fp16.spacing_at_1()));  // w·x is just above η/2
  const double sum = summed(fp16, std::vector<double>(n, w * x));
  CHECK(sum == n * eta);
  const BoundedSet y = ops_of(fp16).linear(RowMatrix::Constant(1, n, w), {}, point(all(n, x)));
  CHECK(used(sum, n * w * x, y.high[0]) >= 0.45);  // errors are at most η/2, the allowance is η
  for (const NumberFormat& f : {fp16, bf16}) {
    const double small = f.unit_roundoff() * (1.0 + f.spacing_at_1());
    const BoundedSet added = ops_of(f).weighted_sum(1.0, point(all(1, 1.0)), 1.0, point(all(1, small)));
    CHECK(used(r(f, 1.0 + small), 1.0 + small, added.high[0]) >= 0.95 - 2.0 * f.unit_roundoff());
  }
}

TEST_CASE("the sum of squares of a norm stagnates: the first feature is 1, and smaller ones do not change the sum") {
  // Squares 1 and n − 1 times u have a computed sum of 1 instead of 1 + (n − 1)u. The output is √(1 + (n − 1)u) too
  // long.
  for (const NumberFormat& f : {fp16, bf16}) {
    INFO(f.name);
    const auto n = static_cast<Index>(1.0 / f.unit_roundoff());
    const bool is_square = std::fmod(std::log2(f.unit_roundoff()), 2.0) == 0.0;  // else squares are u/2
    Vector x = all(n, std::sqrt(f.unit_roundoff()) * (is_square ? 1.0 : M_SQRT1_2));
    x[0] = 1.0;
    const Vector squares = x.cwiseAbs2();
    const double sum = summed(f, {squares.begin(), squares.end()});
    CHECK(sum == 1.0);
    constexpr double eps = 0x1p-14;
    const double mean = r(f, r(f, sum / static_cast<double>(n)) + r(f, eps));
    const double reciprocal = r(f, 1.0 / r(f, std::sqrt(mean)));
    const Vector y = x.unaryExpr([&](double v) { return r(f, v * reciprocal); });
    const BoundedSet set = ops_of(f).normalised(point(x), {NormKind::rms, eps, all(n, 1.0), {}});
    REQUIRE(set.ellipsoid);
    const double bound = set.ellipsoid->axes[0] + set.ellipsoid->error.norm();
    CHECK(y.norm() <= bound);
    // With an exact sum the length would be at most √D.
    CHECK(y.norm() > 1.1 * std::sqrt(static_cast<double>(n)));
    CHECK(y.norm() > 0.8 * bound);
  }
}

TEST_CASE("LayerNorm's mean: additions round up, so that centred features are too small") {
  for (const NumberFormat& f : {fp16, bf16}) {
    INFO(f.name);
    const auto n = static_cast<Index>(0.125 / f.unit_roundoff());
    const std::vector<double> values = terms_that_round_up(f, n);
    const Eigen::Map<const Vector> x(values.data(), n);
    const auto count = static_cast<double>(n);  // a power of two: the quotient is exact
    constexpr double eps = 1024.0;              // the variance, below 1/n, does not change it: x̂ = d/32
    const double computed = r(f, x[1] - summed(f, values) / count) / 32.0;
    const double variance = (x.array() - x.mean()).square().mean();
    const double exact = (x[1] - x.mean()) / std::sqrt(variance + eps);
    CHECK(r(f, r(f, variance) + eps) == eps);
    const BoundedSet y = ops_of(f).normalised(point(x), {NormKind::layer, eps, all(n, 1.0), {}});
    // Of the allowance of about 1.8 u: u(1 + nu) for the sum, 2u/n for the count, 16 u·9u for the later steps.
    CHECK(used(-computed, -exact, -y.low[1]) >= 0.5);
  }
}

TEST_CASE("the bound of a computed tanh exceeds 1 by a few rounding errors") {
  const BoundedSet y = ops_of(bf16).normalised(unbounded(3), {NormKind::dyt, 0.0, Vector::Ones(3), {}, 0.5});
  CHECK(y.high[0] > 1.0);
  CHECK(y.high[0] < 1.0 + 16.0 * bf16.unit_roundoff());
}

TEST_CASE("rounding of weights equals rounding in runs") {
  std::mt19937_64 engine(1);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  for (const NumberFormat& f : {number_formats[0], bf16, fp16, number_formats[3], number_formats[4], fp64}) {
    const Rounding run(f, Rounding::Overflow::infinite);
    for (int i = 0; i < 3000; ++i) {
      const double x = std::ldexp(std::round(uniform(engine) * 0x1p10), i % 300 - 170);
      CHECK(r(f, x) == run(x));
    }
    CHECK(r(f, f.largest) == f.largest);
    CHECK(r(f, -f.smallest_subnormal() / 2.0) == 0.0);
  }
}

}  // namespace computed_ops
}  // namespace
}  // namespace periscope::theory
