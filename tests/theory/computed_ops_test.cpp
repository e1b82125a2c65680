#include "theory/certify/computed_ops.h"

#include "tests/support/doctest.h"
#include "tests/theory/plain_parameters.h"

#include <cmath>
#include <random>

#include "theory/certify/rounded_parameters.h"

/// T24: sets of computed signals against computations that round after every step.
namespace periscope::theory {
namespace {

using Index = Eigen::Index;

constexpr const NumberFormat& fp16 = number_formats[2];
constexpr const NumberFormat& bf16 = number_formats[1];

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

double r(const NumberFormat& f, double x) { return rounded_to(f, x); }

/// γ∘x/√(mean(x²) + ε) with every step rounded, sums from first to last.
Vector plain_rms(const NumberFormat& f, const Vector& x, const Vector& gain, double eps) {
  double sum = 0.0;
  for (const double v : x) sum = r(f, sum + r(f, v * v));
  const double mean = r(f, sum / r(f, static_cast<double>(x.size())));
  const double reciprocal = r(f, 1.0 / r(f, std::sqrt(r(f, mean + r(f, eps)))));
  return x.binaryExpr(gain, [&](double v, double g) { return r(f, g * r(f, v * reciprocal)); });
}

TEST_CASE("a computed norm stays in its set for inputs of every size, also where its sum stalls") {
  std::mt19937_64 engine(2);
  std::normal_distribution<double> normal;
  for (const NumberFormat& f : {fp16, bf16}) {
    for (const Index d : {1, 3, 64, 2811}) {  // the last is no number of either format
      const Vector gain = Vector::NullaryExpr(d, [&] { return r(f, normal(engine)); });
      for (int i = 0; i < 60; ++i) {
        const double size = std::ldexp(1.0, i % 12 - 6 - (d > 100 ? 4 : 0));
        // Equal entries stall a sum at 2^precision terms; small ones underflow when squared.
        const Vector x = Vector::NullaryExpr(d, [&] { return r(f, size * (i % 3 == 0 ? 1.0 : normal(engine))); });
        ComputedOps ops(run_arithmetic(Arithmetic::pure, f), 1);
        const BoundedSet set = ops.normalised(ball(Vector::Constant(d, 1e3), 1e3 * std::sqrt(static_cast<double>(d))),
                                              {NormKind::rms, 1e-5, gain, {}});
        const Vector y = plain_rms(f, x, gain, 1e-5);
        const Vector bound = set.magnitude();
        CHECK((y.cwiseAbs().array() <= bound.array()).all());
        CHECK(y.norm() <= set.norm());
      }
    }
  }
}

TEST_CASE("a computed sum of products stays in its set, partial sums below what is noted, for any number of terms") {
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  for (const Index n : {2, 100, 5000}) {
    for (int i = 0; i < 20; ++i) {
      // Row and input that add up, or that cancel.
      RowMatrix w(1, n);
      Vector x(n);
      for (Index j = 0; j < n; ++j) {
        w(0, j) = r(fp16, i % 2 == 0 ? 1.0 : normal(engine));
        x[j] = r(fp16, i % 4 < 2 ? 1.0 : normal(engine));
      }
      ComputedOps ops(run_arithmetic(Arithmetic::pure, fp16), 1);
      const BoundedSet y = ops.linear(w, {}, point(x));
      double sum = 0.0;
      double largest = 0.0;
      for (Index j = 0; j < n; ++j) {
        sum = r(fp16, sum + r(fp16, w(0, j) * x[j]));
        largest = std::max(largest, std::abs(sum));
      }
      CHECK(sum >= y.low[0]);
      CHECK(sum <= y.high[0]);
      CHECK(largest <= ops.take_notes().at(Signal::sums));
    }
  }
}

TEST_CASE("attention weights sum to what is stated, also where the denominator stalls") {
  for (const NumberFormat& f : {fp16, bf16}) {
    for (const Index n : {1, 7, 300, 5000}) {
      double denominator = 0.0;
      for (Index i = 0; i < n; ++i) denominator = r(f, denominator + 1.0);
      const double sum = static_cast<double>(n) * r(f, 1.0 / denominator);
      ComputedOps ops(run_arithmetic(Arithmetic::pure, f), n);
      const WeightSum weights = ops.attention_weights(0);
      CHECK(sum <= weights.high);
      CHECK(sum >= weights.low);
      CHECK(denominator <= ops.take_notes().at(Signal::denominators));
      CHECK(ops.attention_weights(1).high < 1.1);  // a window of one token
    }
  }
  ComputedOps exact({}, 0);
  CHECK(exact.attention_weights(0).high == 1.0);
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

TEST_CASE("a gain stored as w of 1 + w is rounded before 1 is added") {
  struct OneNorm final : PlainParameters {
    [[nodiscard]] NormParameters norm(int, Weight) const override { return {Vector::Constant(1, 2.6e-4), {}, 1.0}; }
  } const parameters;
  CHECK(RoundedParameters(parameters, fp16).norm(0, Weight::norm_a).gain[0] == 0x1p-11);
}

TEST_CASE("a soft cap that the format does not have is no cap") {
  for (const double cap : {1e6, 1e-9}) {
    ComputedOps ops(run_arithmetic(Arithmetic::mixed, fp16), 1);
    CHECK(ops.soft_capped(cap, point(Vector::Ones(2))).magnitude()[0] == infinity);
    CHECK(ops.score(1.0, 1.0, 1.0, 4, 1.0, cap).score == infinity);
  }
}

TEST_CASE("a soft cap adds to every feature what its steps round") {
  ComputedOps ops(run_arithmetic(Arithmetic::mixed, fp16), 1);
  const BoundedSet exact = soft_capped(2.0, point(Vector::Ones(3)));
  const BoundedSet computed = ops.soft_capped(2.0, point(Vector::Ones(3)));
  REQUIRE(computed.size() == 3);
  for (Eigen::Index k = 0; k < 3; ++k) {
    const double error = 16.0 * fp16.unit_roundoff() * exact.magnitude()[k];  // smallest subnormals add 1e-4 of it
    CHECK(computed.high[k] - exact.high[k] >= 0.999 * error);
    CHECK(computed.high[k] - exact.high[k] <= 1.001 * error);
    CHECK(exact.low[k] - computed.low[k] >= 0.999 * error);
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

}  // namespace
}  // namespace periscope::theory
