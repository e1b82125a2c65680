#include "tests/support/doctest.h"

#include <cmath>
#include <random>
#include <vector>

#include "theory/certify/computed_ops.h"
#include "theory/certify/rounded_parameters.h"

/// T24, op by op: what computed sets are, and that their allowances are needed. Runs that round after every step, on
/// numbers that all round the same way, come near what a bound allows them.
// A namespace of its own: files of tests are compiled several at a time.
namespace periscope::theory {
namespace {
namespace computed_ops {

using Index = Eigen::Index;

constexpr const NumberFormat& fp16 = number_formats[2];
constexpr const NumberFormat& bf16 = number_formats[1];

Vector all(Index n, double x) { return Vector::Constant(n, x); }
double r(const NumberFormat& f, double x) { return rounded_to(f, x); }

/// What a run computed, in units of what its bound allows beyond exact arithmetic: at most 1.
double used(double computed, double exact, double bound) {
  CHECK(computed <= bound);
  return (computed - exact) / (bound - exact);
}

/// 1 followed by n − 1 terms just above u: every addition rounds up, by nearly u. For n·u ≤ 1/8 no partial sum reaches
/// the next power of two.
std::vector<double> terms_that_round_up(const NumberFormat& f, Index n) {
  const double u = f.unit_roundoff();
  std::vector<double> x(static_cast<std::size_t>(n), u * (1.0 + f.spacing_at_1()));
  x[0] = 1.0;
  return x;
}

/// 1 followed by n − 1 terms u, none of which the running sum ever sees (ties go to even).
std::vector<double> terms_that_are_lost(const NumberFormat& f, Index n) {
  std::vector<double> x(static_cast<std::size_t>(n), f.unit_roundoff());
  x[0] = 1.0;
  return x;
}

double summed(const NumberFormat& f, const std::vector<double>& x) {
  double sum = 0.0;
  for (const double term : x) sum = r(f, sum + r(f, term));
  return sum;
}

double exact_sum(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double term : x) sum += term;
  return sum;
}

/// Of an allowance κB = nu(1 + …)(1 + nu) the terms above use (n − 1)u; what is stored behind the sum is another u.
double least_used(const NumberFormat& f, Index n) {
  const auto terms = static_cast<double>(n);
  const double nu = terms * f.unit_roundoff();
  return 0.99 * (terms - 1.0) / (terms + 1.0 + nu) / std::pow(1.0 + nu, 2);
}

TEST_CASE("a sum of products: every addition rounds the same way") {
  for (const NumberFormat& f : {fp16, bf16}) {
    for (const Index n : {8, 16, static_cast<int>(0.125 / f.unit_roundoff())}) {
      INFO(f.name, " ", n);
      ComputedOps ops(run_arithmetic(Arithmetic::pure, f), 1);
      const RowMatrix ones = RowMatrix::Ones(1, n);
      const auto hold = [&](const std::vector<double>& x, double sign) {
        const BoundedSet y = ops.linear(ones, {}, point(Eigen::Map<const Vector>(x.data(), n)));
        const double bound = sign > 0.0 ? y.high[0] : -y.low[0];
        CHECK(used(sign * summed(f, x), sign * exact_sum(x), bound) >= least_used(f, n));
      };
      hold(terms_that_round_up(f, n), 1.0);
      hold(terms_that_are_lost(f, n), -1.0);
    }
  }
}

TEST_CASE("a sum of products that underflow: each is rounded up to the smallest number") {
  constexpr Index n = 64;
  const double eta = fp16.smallest_subnormal();
  ComputedOps ops(run_arithmetic(Arithmetic::pure, fp16), 1);
  const double w = 0x1p-12;
  const double x = r(fp16, eta * 0x1p11 * (1.0 + fp16.spacing_at_1()));  // w·x is just above η/2
  double sum = 0.0;
  for (Index i = 0; i < n; ++i) sum = r(fp16, sum + r(fp16, w * x));
  CHECK(sum == n * eta);
  const BoundedSet y = ops.linear(RowMatrix::Constant(1, n, w), {}, point(all(n, x)));
  CHECK(used(sum, n * w * x, y.high[0]) >= 0.45);  // an error is at most η/2, and η is allowed
}

TEST_CASE("averages of values: the weighted sum's roundings add up over the tokens that are read") {
  for (const NumberFormat& f : {fp16, bf16}) {
    for (const Index n : {8, 16, static_cast<int>(0.125 / f.unit_roundoff())}) {
      INFO(f.name, " ", n);
      // Weights 1/n of n tokens, n a power of two, and values n times the terms: products are exact.
      const std::vector<double> terms = terms_that_round_up(f, n);
      ComputedOps ops(run_arithmetic(Arithmetic::pure, f), n);
      const double exact = exact_sum(terms);
      // Values whose average is `exact`, wherever a token's largest is: the set of all tokens is that of the average.
      const ComputedImage y = ops.weighted_values({}, 0, point(all(1, exact)));
      CHECK(used(summed(f, terms), exact, y.set.high[0]) >= least_used(f, n));
      CHECK(summed(f, terms) - exact <= y.error[0]);
      const std::vector<double> lost = terms_that_are_lost(f, n);
      const BoundedSet low = ops.weighted_values({}, 0, point(all(1, exact_sum(lost)))).set;
      CHECK(used(-summed(f, lost), -exact_sum(lost), -low.low[0]) >= least_used(f, n));
    }
  }
}

TEST_CASE("q·k: the roundings of its sum add up over the features of a head") {
  for (const Index e : {8, 16, 128}) {
    INFO(e);
    const std::vector<double> terms = terms_that_round_up(fp16, e);
    const double exact = exact_sum(terms);
    ComputedOps ops(run_arithmetic(Arithmetic::pure, fp16), 1);
    // q = k with q_i k_i the terms, up to their own rounding: ‖q‖‖k‖ is the sum.
    const ComputedOps::Score s = ops.score(exact, std::sqrt(exact), std::sqrt(exact), e, 1.0, 0.0);
    CHECK(used(summed(fp16, terms), exact, s.dot) >= least_used(fp16, e));
  }
}

TEST_CASE("storing a sum: half a unit in the last place") {
  for (const NumberFormat& f : {fp16, bf16}) {
    INFO(f.name);
    const double u = f.unit_roundoff();
    ComputedOps ops(run_arithmetic(Arithmetic::pure, f), 1);
    const double y = u * (1.0 + f.spacing_at_1());
    const BoundedSet sum = ops.weighted_sum(1.0, point(all(1, 1.0)), 1.0, point(all(1, y)));
    CHECK(used(r(f, 1.0 + y), 1.0 + y, sum.high[0]) >= 0.95 - 2.0 * u);
  }
}

TEST_CASE("a norm's sum of squares that stalls: one feature behind others that vanish from the sum") {
  // Squares of 1 and n − 1 times u: computed 1, exactly 1 + (n − 1)u. So the whole is √(1 + (n − 1)u) too long.
  for (const NumberFormat& f : {fp16, bf16}) {
    const auto n = static_cast<Index>(1.0 / f.unit_roundoff());
    INFO(f.name);
    Vector x = all(n, std::sqrt(f.unit_roundoff()));
    if (std::fmod(std::log2(f.unit_roundoff()), 2.0) != 0.0) {
      x *= M_SQRT1_2;  // a power of two: squares are u/2
    }
    x[0] = 1.0;
    double sum = 0.0;
    for (const double v : x) sum = r(f, sum + r(f, v * v));
    CHECK(sum == 1.0);
    constexpr double eps = 0x1p-14;
    const double mean = r(f, r(f, sum / static_cast<double>(n)) + r(f, eps));
    const double reciprocal = r(f, 1.0 / r(f, std::sqrt(mean)));
    const Vector y = x.unaryExpr([&](double v) { return r(f, v * reciprocal); });
    ComputedOps ops(run_arithmetic(Arithmetic::pure, f), 1);
    const BoundedSet set = ops.normalised(point(x), {NormKind::rms, eps, all(n, 1.0), {}});
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
    const std::vector<double> terms = terms_that_round_up(f, n);
    const Eigen::Map<const Vector> x(terms.data(), n);
    const auto count = static_cast<double>(n);  // a power of two: the quotient is exact
    constexpr double eps = 1024.0;              // beside which the variance, below 1/n, is lost: x̂ = d/32
    const double computed = r(f, x[1] - summed(f, terms) / count) / 32.0;
    const double mean = exact_sum(terms) / count;
    const double variance = (x.array() - mean).square().mean();
    const double exact = (x[1] - mean) / std::sqrt(variance + eps);
    CHECK(r(f, r(f, variance) + eps) == eps);
    ComputedOps ops(run_arithmetic(Arithmetic::pure, f), 1);
    const BoundedSet y = ops.normalised(point(x), {NormKind::layer, eps, all(n, 1.0), {}});
    // Of the sum's allowance u(1 + nu) and the count's 2u/n, and of some 16 u·9u for the steps behind it: 1.8 u.
    CHECK(used(-computed, -exact, -y.low[1]) >= 0.5);
  }
}

TEST_CASE("rounding to a format, against the values of its definition") {
  CHECK(rounded_to(fp16, 1.0 + 0x1p-11) == 1.0);  // ties to even
  CHECK(rounded_to(fp16, 1.0 + 0x1.8p-10) == 1.0 + 0x1p-9);
  CHECK(rounded_to(fp16, 65519.0) == 65504.0);
  CHECK(rounded_to(fp16, -65520.0) == -infinity);
  CHECK(rounded_to(fp16, 1e-12) == 0.0);
  CHECK(rounded_to(fp16, 0x1.8p-24) == 0x1p-23);
  CHECK(rounded_to(bf16, 1e39) == infinity);
  std::mt19937_64 engine(1);
  for (int i = 0; i < 10'000; ++i) {
    const double x =
        std::ldexp(std::uniform_real_distribution<double>(-1.0, 1.0)(engine), static_cast<int>(i % 300) - 160);
    CHECK(rounded_to(number_formats[0], x) == static_cast<double>(static_cast<float>(x)));
    CHECK(rounded_to(fp64, x) == x);
  }
}

TEST_CASE("GELU's tanh form may store every step: 1 + tanh cancels left of 0") {
  const double x = -3.583984375;
  const double t = r(fp16, 0.7978515625 * r(fp16, x + r(fp16, 0.044708251953125 * r(fp16, r(fp16, x * x) * x))));
  const double y = r(fp16, r(fp16, 0.5 * x) * r(fp16, 1.0 + r(fp16, std::tanh(t))));
  CHECK(y < -8e-4);  // exactly it is −4.4e-4
  ComputedOps ops(run_arithmetic(Arithmetic::mixed, fp16), 1);
  CHECK(ops.activated(Activation::gelu_tanh, point(Vector::Constant(1, x))).set.low[0] <= y);
}

TEST_CASE("queries that are scaled and stored before the product") {
  const double tiny = 9.0 * fp16.smallest_subnormal();  // a quarter of it is no number of the format
  const double scale = 0.0625;
  const double stored_query = r(fp16, tiny * scale);
  ComputedOps ops(run_arithmetic(Arithmetic::mixed, fp16), 1);
  const double query = tiny * 16.0;
  const double key = 6e4 * 16.0;  // norms of 256 equal features
  CHECK(ops.score(query * key, query, key, 256, scale, 0.0).score >= r(fp16, 256.0 * stored_query * 6e4));
}

TEST_CASE("a soft cap that the format does not have is no cap") {
  for (const double cap : {1e6, 1e-9}) {
    ComputedOps ops(run_arithmetic(Arithmetic::mixed, fp16), 1);
    CHECK(ops.soft_capped(cap, point(Vector::Ones(2))).magnitude()[0] == infinity);
    CHECK(ops.score(1.0, 1.0, 1.0, 4, 1.0, cap).score == infinity);
  }
}

TEST_CASE("storing widens a set by u of its members, not of its bound, where centres cancel") {
  ComputedOps ops(run_arithmetic(Arithmetic::mixed, bf16), 1);
  const double u = bf16.unit_roundoff();
  const BoundedSet large = ops.stored(point(Vector::Constant(2, 1000.0)));
  const BoundedSet rest = ops.weighted_sum(1.0, large, 1.0, point(Vector::Constant(2, -1000.0)));
  CHECK(rest.magnitude()[0] >= 1000.0 * u);
  RowMatrix difference(1, 2);
  difference << 1.0, -1.0;
  CHECK(image_and_sums(difference, large).set.magnitude()[0] >= 2000.0 * u);
}

}  // namespace computed_ops
}  // namespace
}  // namespace periscope::theory
