#include "theory/certify/computed_ops.h"

#include <cmath>
#include <random>
#include <vector>

#include "sim/numerics/rounding.h"
#include "tests/support/doctest.h"
#include "theory/certify/rounded_parameters.h"

/// T24, op by op: allowances are needed. Runs that round after every step, on many numbers of few bits that all round
/// the same way, come near what a bound allows them.
// A separate namespace, because test files are compiled several at a time.
namespace periscope::theory {
namespace {
namespace computed_ops {

using Index = Eigen::Index;

constexpr const NumberFormat& bf16 = number_formats[1];

Vector all(Index n, double x) { return Vector::Constant(n, x); }
double r(const NumberFormat& f, double x) { return rounded_to(f, x); }
ComputedOps ops_of(const NumberFormat& f, Index longest = 1) { return {run_arithmetic(Arithmetic::pure, f), longest}; }

/// What a run computed, in units of what its bound allows beyond exact arithmetic: at most 1.
double used(double computed, double exact, double bound) {
  CHECK(computed <= bound);
  return (computed - exact) / (bound - exact);
}

double summed(const NumberFormat& f, const std::vector<double>& x) {
  double sum = 0.0;
  for (const double term : x) sum = r(f, sum + r(f, term));
  return sum;
}

/// 1 followed by n − 1 equal terms.
std::vector<double> terms(Index n, double rest) {
  std::vector<double> x(static_cast<std::size_t>(n), rest);
  x[0] = 1.0;
  return x;
}

/// Terms just above u: every addition rounds up, by nearly u. For n·u ≤ 1/8 no partial sum reaches the next power of
/// two.
std::vector<double> terms_that_round_up(const NumberFormat& f, Index n) {
  return terms(n, f.unit_roundoff() * (1.0 + f.spacing_at_1()));
}

TEST_CASE("sums of products, averages of values and q·k: every addition rounds the same way") {
  for (const NumberFormat& f : {fp16, bf16}) {
    const double u = f.unit_roundoff();
    for (const Index n : {Index{8}, Index{16}, static_cast<Index>(0.125 / u)}) {
      INFO(f.name, " ", n);
      // Of an allowance κB = nu(1 + …)(1 + nu) the terms use (n − 1)u; storing the sum is another u.
      const double nu = static_cast<double>(n) * u;
      const double least = 0.99 * (nu - u) / (nu + u * (1.0 + nu)) / std::pow(1.0 + nu, 2);
      // Terms of u are never seen by the running sum: ties go to even.
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
        // Weights 1/n of n tokens, n a power of two, and values n times the terms, so that products are exact: the set
        // of all tokens is that of their average.
        const ComputedImage average = ops.weighted_values({}, 0, point(all(1, exact)));
        CHECK(used(computed, sign * exact, far(average.set)) >= least);
        CHECK(computed - sign * exact <= average.error[0]);
        if (!up) continue;
        // q = k with q_i k_i the terms, up to their own rounding: ‖q‖‖k‖ is the sum.
        const double root = std::sqrt(exact);
        CHECK(used(computed, exact, ops.score(exact, root, root, n, 1.0, 0.0).dot) >= least);
      }
    }
  }
}

TEST_CASE("products that underflow are each rounded up to the smallest number; storing a sum rounds by half a unit") {
  constexpr Index n = 64;
  const double eta = fp16.smallest_subnormal();
  const double w = 0x1p-12;
  const double x = r(fp16, eta * 0x1p11 * (1.0 + fp16.spacing_at_1()));  // w·x is just above η/2
  const double sum = summed(fp16, std::vector<double>(n, w * x));
  CHECK(sum == n * eta);
  const BoundedSet y = ops_of(fp16).linear(RowMatrix::Constant(1, n, w), {}, point(all(n, x)));
  CHECK(used(sum, n * w * x, y.high[0]) >= 0.45);  // an error is at most η/2, and η is allowed
  for (const NumberFormat& f : {fp16, bf16}) {
    const double small = f.unit_roundoff() * (1.0 + f.spacing_at_1());
    const BoundedSet added = ops_of(f).weighted_sum(1.0, point(all(1, 1.0)), 1.0, point(all(1, small)));
    CHECK(used(r(f, 1.0 + small), 1.0 + small, added.high[0]) >= 0.95 - 2.0 * f.unit_roundoff());
  }
}

TEST_CASE("a norm's sum of squares that stalls: one feature before others that vanish from the sum") {
  // Squares of 1 and n − 1 times u: computed 1, exactly 1 + (n − 1)u. So the whole is √(1 + (n − 1)u) too long.
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
    // Without what the sum loses a norm would be at most √D.
    CHECK(y.norm() > 1.1 * std::sqrt(static_cast<double>(n)));
    CHECK(y.norm() > 0.8 * bound);
  }
}

TEST_CASE("LayerNorm's mean: the additions of its sum round up, so what is left of every feature is too small") {
  for (const NumberFormat& f : {fp16, bf16}) {
    INFO(f.name);
    const auto n = static_cast<Index>(0.125 / f.unit_roundoff());
    const std::vector<double> values = terms_that_round_up(f, n);
    const Eigen::Map<const Vector> x(values.data(), n);
    const auto count = static_cast<double>(n);  // a power of two: the quotient is exact
    constexpr double eps = 1024.0;              // beside which the variance, below 1/n, is lost: x̂ = d/32
    const double computed = r(f, x[1] - summed(f, values) / count) / 32.0;
    const double variance = (x.array() - x.mean()).square().mean();
    const double exact = (x[1] - x.mean()) / std::sqrt(variance + eps);
    CHECK(r(f, r(f, variance) + eps) == eps);
    const BoundedSet y = ops_of(f).normalised(point(x), {NormKind::layer, eps, all(n, 1.0), {}});
    // Of the sum's allowance u(1 + nu) and the count's 2u/n, and of some 16 u·9u for the later steps: 1.8 u.
    CHECK(used(-computed, -exact, -y.low[1]) >= 0.5);
  }
}

TEST_CASE("a computed tanh may pass 1 by roundings, and its bound by a few") {
  const BoundedSet y = ops_of(bf16).normalised(unbounded(3), {NormKind::dyt, 0.0, Vector::Ones(3), {}, 0.5});
  CHECK(y.high[0] > 1.0);
  CHECK(y.high[0] < 1.0 + 16.0 * bf16.unit_roundoff());
}

TEST_CASE("weights are rounded as runs round") {
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
