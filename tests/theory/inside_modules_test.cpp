#include "theory/modules/inside_modules.h"

#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>

#include "tests/support/doctest.h"

#include <Eigen/Cholesky>
#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "sim/spec/weight_scales.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/significance.h"
#include "theory/predict/predict.h"

namespace periscope::theory {
namespace {

Matrix pair_kernel(double a, double b, double ab) {
  Matrix c(2, 2);
  c << a, ab, ab, b;
  return c;
}

class Draws {
 public:
  explicit Draws(unsigned seed) : engine_(seed) {}
  /// Samples a matrix [tokens, features]; each column has covariance c.
  Matrix of(const Matrix& c, Eigen::Index features) {
    Matrix z(c.rows(), features);
    for (double& x : z.reshaped()) x = unit_(engine_);
    return Matrix(c.llt().matrixL()) * z;
  }

 private:
  boost::random::mt19937 engine_;
  boost::random::normal_distribution<double> unit_;
};

/// Returns whether the mean of the draws is within five standard errors of `expected` (false alarms: 6e-7).
bool agrees(const std::vector<double>& draws, double expected) {
  const testing::Estimate e = testing::estimate(draws);
  return std::abs(e.mean - expected) <= 5.0 * e.standard_error;
}

TEST_CASE("V-norm's kernel agrees with sampling for few and many features") {
  const Matrix c = pair_kernel(2.0, 0.5, 0.6);  // correlation 0.6
  for (const int e : {1, 2, 3, 8, 40}) {
    CAPTURE(e);
    Draws draws(7);
    std::vector<double> cosine;
    for (int i = 0; i < 20000; ++i) {
      const Matrix v = draws.of(c, e);
      cosine.push_back(v.row(0).dot(v.row(1)) / (v.row(0).norm() * v.row(1).norm()));
    }
    const Matrix k = normed_values(c, e, 0.0);
    CHECK(agrees(cosine, k(0, 1)));
    CHECK(k(0, 0) == approx(1.0));
    if (e == 1) CHECK_FALSE(agrees(cosine, 0.6));  // 0.6 is the limit of many features
  }
  CHECK(normed_values(c, 4096, 0.0)(0, 1) == approx(normed_values(c, 4097, 0.0)(0, 1)).epsilon(1e-6));
  CHECK(normed_values(c, 1 << 20, 0.0)(0, 1) == approx(0.6).epsilon(1e-6));
  CHECK(normed_values(c, 1 << 20, 1.0)(0, 1) == approx(0.6 / std::sqrt(3.0 * 1.5)).epsilon(1e-6));
  CHECK(normed_values(-c, 8, 0.0)(0, 1) == 0.0);  // no token has positive variance
  CHECK(normed_values(pair_kernel(2.0, 0.5, -0.6), 8, 0.0)(0, 1) == approx(-normed_values(c, 8, 0.0)(0, 1)));
}

TEST_CASE("V-norm's gradient factor is the derivative of the kernel and agrees with sampling for few features") {
  for (const int e : {3, 8, 40, 5000}) {
    CAPTURE(e);
    const auto at = [&](double ab) { return normed_values(pair_kernel(2.0, 0.5, ab), e, 0.0)(0, 1); };
    const Matrix slope = normed_values_slope(pair_kernel(2.0, 0.5, 0.6), e, 0.0);
    CHECK(slope(0, 1) == approx((at(0.6 + 1e-5) - at(0.6 - 1e-5)) / 2e-5).epsilon(1e-6));
    CHECK(slope(0, 0) == approx((e - 1.0) / (e - 2.0) / 2.0).epsilon(1e-4));
  }
  // E⟨Jᵀg, J'ᵀg'⟩ for the norm's Jacobian J = (1 − v̂v̂ᵀ/e)/rms and gradients g with kernel 1.
  const int e = 6;
  const Matrix c = pair_kernel(2.0, 0.5, 0.6);
  Draws draws(8);
  std::vector<double> same, other;
  for (int i = 0; i < 20000; ++i) {
    const Matrix v = draws.of(c, e);
    const Matrix g = Vector::Ones(2) * draws.of(Matrix::Ones(1, 1), e);
    Matrix back(2, e);
    for (int t = 0; t < 2; ++t) {
      const double rms = v.row(t).norm() / std::sqrt(e);
      back.row(t) = (g.row(t) - v.row(t) * (v.row(t).dot(g.row(t)) / v.row(t).squaredNorm())) / rms;
    }
    same.push_back(back.row(0).squaredNorm() / e);
    other.push_back(back.row(0).dot(back.row(1)) / e);
  }
  const Matrix slope = normed_values_slope(c, e, 0.0);
  CHECK(agrees(same, slope(0, 0)));
  CHECK(agrees(other, slope(0, 1)));
  CHECK_FALSE(agrees(same, 0.5));  // 0.5 is the limit of many features (T8)
}

StackSpec gated_stack(AttentionGate gate) {
  StackSpec spec = testing::placed(testing::tiny_stack(), "pre");
  spec.model.attention_gate = gate;
  spec.init.scheme = InitScheme::normal;
  spec.init.std = 0.5;
  return spec;
}

TEST_CASE("gate kernels agree with sampled sigmoids of Gaussian numbers and have the right limits") {
  StackSpec spec = gated_stack(AttentionGate::head);
  const Matrix input = pair_kernel(1.3, 0.8, -0.5);
  const GateKernels k = gate_kernels(spec, 0, input);
  Draws draws(9);
  std::vector<double> open[2], slope[2];
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  for (int i = 0; i < 40000; ++i) {
    const Matrix g = draws.of(0.25 * spec.model.width * input, 1);
    for (int t = 0; t < 2; ++t) {
      open[t].push_back(sigmoid(g(0, 0)) * sigmoid(g(t, 0)));
      const auto derivative = [&](double x) { return sigmoid(x) * sigmoid(-x); };
      slope[t].push_back(derivative(g(0, 0)) * derivative(g(t, 0)));
    }
  }
  for (int t = 0; t < 2; ++t) {
    CHECK(agrees(open[t], k.values(0, t)));
    CHECK(agrees(slope[t], k.slopes(0, t)));
  }
  const double rho = -0.5 / std::sqrt(1.3 * 0.8);
  spec.init.std = 1e4;
  CHECK(gate_kernels(spec, 0, input).values(0, 1) ==
        approx(0.5 - std::acos(rho) / (2.0 * std::numbers::pi)).epsilon(0.02));
  spec.init.std = 1e-6;
  const GateKernels half = gate_kernels(spec, 0, input);
  CHECK(half.values(0, 1) == approx(0.25).epsilon(1e-6));
  CHECK(half.slopes(0, 1) == approx(1.0 / 16.0).epsilon(1e-6));
}

TEST_CASE("inner norms set the second moment of the inputs of W_o and W_down to 1") {
  StackSpec spec = gated_stack(AttentionGate::none);
  spec.model.inner_norm = InnerNorm::both;
  spec.model.norm_eps = 0.0;
  const Prediction p = predict(spec, {}, {.max_samples = 64});
  const std::vector<double>& q = p.profile.find(Statistic::second_moment, Signal::f_out)->value;
  for (std::size_t l = 0; l < q.size(); ++l) {
    const double width = l % 2 == 0 ? spec.model.query_width(0) : spec.model.mlp_width;
    CHECK(q[l] == approx(0.25 * width).epsilon(1e-6));
  }
}

TEST_CASE("inner norms with given weights are unsupported, forward and backward") {
  StackSpec spec = testing::placed(testing::tiny_stack(), "pre");
  spec.model.inner_norm = InnerNorm::o;
  spec.scales = std::make_shared<const WeightScales>();
  for (const std::vector<std::vector<int>>& labels : {std::vector<std::vector<int>>(), {{1, 2, 3, 4, 5}}}) {
    const Prediction p = predict(spec, {}, {.max_samples = 8, .labels = labels});
    CHECK(p.unsupported.find("model.inner_norm") != std::string::npos);
    CHECK(p.profile.curves.empty());
  }
}

}  // namespace
}  // namespace periscope::theory
