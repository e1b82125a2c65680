#include "theory/first_steps/update_law.h"

#include <Eigen/Cholesky>
#include <Eigen/LU>

#include <cmath>
#include <numbers>
#include <vector>

#include "sim/measure/running_moments.h"
#include "tests/first_steps/small_case.h"
#include "tests/support/doctest.h"
#include "theory/kernels/normal_stream.h"

namespace periscope::theory {
namespace {

const std::vector<double> rates{0.5, 0.4, 0.3, 0.3, 0.2};

UpdateLaw adam_of(int steps, double eps = 0.0, double decay = 0.0) {
  OptimizerLaw optimizer = adam({rates.begin(), rates.begin() + steps});
  optimizer.eps = eps;
  optimizer.weight_decay = decay;
  return {optimizer, std::vector<double>(static_cast<std::size_t>(steps), 1.0), 1.0};
}

/// m̂/(√v̂ + ε) of one step and its derivatives with respect to the gradients.
struct OneStep {
  double value = 0.0;
  Vector slope;
};
OneStep one_step(const Vector& a, Eigen::Index step, double eps) {
  const OptimizerLaw o = adam({});
  double mean = 0.0;
  double square = 0.0;
  Vector of_mean(step);
  Vector of_square(step);
  for (Eigen::Index b = 0; b < step; ++b) {
    of_mean(b) = (1.0 - o.beta1) * std::pow(o.beta1, step - 1 - b) / (1.0 - std::pow(o.beta1, step));
    of_square(b) = (1.0 - o.beta2) * std::pow(o.beta2, step - 1 - b) / (1.0 - std::pow(o.beta2, step));
    mean += of_mean(b) * a(b);
    square += of_square(b) * a(b) * a(b);
  }
  const double root = std::sqrt(square);
  return {mean / (root + eps),
          of_mean / (root + eps) - mean / (root * std::pow(root + eps, 2)) * of_square.cwiseProduct(a.head(step))};
}

/// E ∂U/∂a and E U² of two steps without ε, by the midpoint rule over the angle of (a_0, a_1). U does not depend on the
/// radius, which is integrated in closed form.
UpdateLaw::Moments by_angle(const Matrix& c) {
  constexpr int nodes = 100000;
  const Matrix inverse = c.inverse();
  const double mass = 1.0 / std::sqrt(c.determinant());
  UpdateLaw::Moments m{.slope = Vector::Zero(2)};
  for (int i = 0; i < nodes; ++i) {  // over the half with a_0 > 0; U(−a) = −U(a)
    const double angle = std::numbers::pi * ((i + 0.5) / nodes - 0.5);
    const Vector a = Eigen::Vector2d(std::cos(angle), std::sin(angle));
    const double size = a.dot(inverse * a);
    const OneStep second = one_step(a, 2, 0.0);
    m.slope += rates[1] * mass * std::sqrt(std::numbers::pi / 2.0 / size) / nodes * second.slope;
    m.square += mass / size / nodes * std::pow(rates[0] + rates[1] * second.value, 2);
  }
  m.slope(0) += rates[0] * std::sqrt(2.0 / std::numbers::pi / c(0, 0));  // slope of the sign function
  return m;
}

Matrix covariance(const Vector& sizes, double correlation) {
  Matrix c = correlation * sizes * sizes.transpose();
  c.diagonal() = sizes.cwiseAbs2();
  return c;
}

/// Compares moments with a simulation of `pairs` draws: slopes within 0.2 % plus five standard errors. Returns the
/// relative error of the square.
double check_by_simulation(int steps, const Matrix& c, double eps, int pairs) {
  const UpdateLaw::Moments m = adam_of(steps, eps).moments(c);
  const Matrix lower = c.llt().matrixL();
  NormalStream numbers({.seed = 1, .replicate = 0, .place = 0});
  std::vector<RunningMoments> slope(static_cast<std::size_t>(steps));
  RunningMoments square;
  const Matrix gradients = numbers.normals(pairs, steps) * lower.transpose();
  for (int i = 0; i < pairs; ++i) {
    const Vector a = gradients.row(i).transpose();
    double u = 0.0;
    Vector of_u = Vector::Zero(steps);
    for (int t = 1; t <= steps; ++t) {
      if (t == 1 && eps == 0.0) {
        u += a(0) > 0.0 ? rates[0] : -rates[0];
        continue;
      }
      const OneStep step = one_step(a, t, eps);
      u += rates[static_cast<std::size_t>(t - 1)] * step.value;
      of_u.head(t) += rates[static_cast<std::size_t>(t - 1)] * step.slope;
    }
    for (int b = 0; b < steps; ++b) slope[static_cast<std::size_t>(b)].add(of_u(b));
    square.add(u * u);
  }
  for (int b = 0; b < steps; ++b) {
    CAPTURE(b);
    const RunningMoments& of_b = slope[static_cast<std::size_t>(b)];
    const double sign = b == 0 && eps == 0.0 ? rates[0] * std::sqrt(2.0 / std::numbers::pi / c(0, 0)) : 0.0;
    CHECK(std::abs(m.slope(b) - of_b.mean() - sign) < 2e-3 * std::abs(m.slope(b)) + 5.0 * of_b.standard_error());
  }
  CHECK(square.standard_error() < 0.01 * square.mean());
  return m.square / square.mean() - 1.0;
}

TEST_CASE("update law: moments of two steps match an integral over the angle") {
  for (const double ratio : {1.0, 0.3, 0.1, 0.03, 1e-3}) {
    for (const double correlation : {-0.99, -0.5, 0.0, 0.8, 0.99}) {
      for (const bool falls : {true, false}) {
        INFO("ratio := ", ratio, ", correlation := ", correlation, ", falls := ", falls);
        const Matrix c =
            covariance(7.0 * (falls ? Eigen::Vector2d(1.0, ratio) : Eigen::Vector2d(ratio, 1.0)), correlation);
        const UpdateLaw::Moments m = adam_of(2).moments(c);
        const UpdateLaw::Moments expected = by_angle(c);
        for (Eigen::Index b = 0; b < 2; ++b) CHECK(m.slope(b) == approx(expected.slope(b)).epsilon(5e-4));
        CHECK(m.square == approx(expected.square).epsilon(5e-4));
      }
    }
  }
}

TEST_CASE("update law: moments of more steps match a simulation") {
  RunningMoments error;
  for (const int steps : {3, 5}) {
    for (const double correlation : {0.0, 0.9}) {
      for (const double ratio : {1.0, 0.2, 0.03}) {
        for (const int large : {0, 1}) {  // index of the large gradient
          INFO("steps := ", steps, ", correlation := ", correlation, ", ratio := ", ratio, ", large := ", large);
          Vector sizes = Vector::Constant(steps, ratio);
          sizes(large) = 1.0;
          sizes(2) = -0.5;
          const double of_square = check_by_simulation(steps, covariance(sizes, correlation), 0.0, 30000);
          CHECK(std::abs(of_square) < 0.03);
          error.add(of_square * of_square);
        }
      }
    }
  }
  CHECK(std::sqrt(error.mean()) < 0.01);
}

TEST_CASE("update law: moments with ε near the size of gradients match a simulation") {
  for (const int steps : {1, 2, 3}) {
    for (const double eps : {1e-3, 0.1, 2.0, 30.0}) {
      INFO("steps := ", steps, ", eps := ", eps);
      const double of_square =
          check_by_simulation(steps, covariance(Eigen::Vector3d(1.0, 0.1, 0.5).head(steps), 0.4), eps, 30000);
      CHECK(std::abs(of_square) < 0.04);
    }
  }
}

TEST_CASE("update law: a step is m̂/ε if gradients are far below ε") {
  for (const int steps : {1, 2, 3}) {
    for (const double eps : {1e5, 1e12}) {
      INFO("steps := ", steps, ", eps := ", eps);
      const Matrix c = covariance(Eigen::Vector3d(1.0, 0.1, 0.5).head(steps), 0.4);
      const UpdateLaw::Moments m = adam_of(steps, eps).moments(c);
      Vector expected = Vector::Zero(steps);
      for (int t = 1; t <= steps; ++t) {
        expected.head(t) += rates[static_cast<std::size_t>(t - 1)] * one_step(Vector::Constant(t, 1e-9), t, eps).slope;
      }
      for (int b = 0; b < steps; ++b) CHECK(m.slope(b) == approx(expected(b)).epsilon(1e-3));
      CHECK(m.square == approx(expected.dot(c * expected)).epsilon(0.03));
    }
  }
}

TEST_CASE("update law: a batch without gradients has slope 0 and does not change other slopes") {
  const double root = std::sqrt(2.0 / std::numbers::pi);
  const OptimizerLaw o = adam({});
  // With one nonzero gradient, every step is the gradient's sign times its remaining weight in the running averages.
  const double second = o.beta1 / (1.0 + o.beta1) / std::sqrt(o.beta2 / (1.0 + o.beta2));
  const UpdateLaw::Moments early = adam_of(2).moments(covariance(Eigen::Vector2d(3.0, 0.0), 0.0));
  CHECK(early.slope(0) == approx(root / 3.0 * (rates[0] + rates[1] * second)).epsilon(1e-4));
  CHECK(early.slope(1) == 0.0);
  CHECK(early.square == approx(std::pow(rates[0] + rates[1] * second, 2)).epsilon(1e-4));
  const double newest = 1.0 / (1.0 + o.beta1) / std::sqrt(1.0 / (1.0 + o.beta2));
  const UpdateLaw::Moments late = adam_of(2).moments(covariance(Eigen::Vector2d(0.0, 3.0), 0.0));
  CHECK(late.slope(0) == 0.0);
  CHECK(late.slope(1) == approx(root / 3.0 * rates[1] * newest).epsilon(1e-4));
  CHECK(late.square == approx(std::pow(rates[1] * newest, 2)).epsilon(1e-4));
  // One of three gradients is nearly zero, then zero up to rounding.
  for (const int zero : {0, 1, 2}) {
    CAPTURE(zero);
    Vector sizes = Eigen::Vector3d(1.0, 0.7, 0.8);
    sizes(zero) = 1e-6;
    const UpdateLaw::Moments small = adam_of(3).moments(covariance(sizes, 0.3));
    Matrix c = covariance(sizes, 0.3);
    for (int b = 0; b < 3; ++b) c(zero, b) = c(b, zero) = 0.0;
    c(zero, zero) = -1e-12;
    const UpdateLaw::Moments nothing = adam_of(3).moments(c);
    CHECK(nothing.slope(zero) == 0.0);
    for (int b = 0; b < 3; ++b) {
      if (b != zero) CHECK(nothing.slope(b) == approx(small.slope(b)).epsilon(1e-3));
    }
    CHECK(nothing.square == approx(small.square).epsilon(zero == 0 ? 1.0 : 0.02));
  }
}

TEST_CASE("update law: a covariance that rounding makes indefinite has finite moments") {
  for (const int steps : {2, 3, 5}) {
    Matrix c = Matrix::Ones(steps, steps);
    c(steps - 1, 0) = c(0, steps - 1) = 1.0 + 1e-6;
    const UpdateLaw::Moments m = adam_of(steps).moments(c);
    double rate = 0.0;
    for (int t = 0; t < steps; ++t) rate += rates[static_cast<std::size_t>(t)];
    CHECK(m.slope.sum() == approx(rate * std::sqrt(2.0 / std::numbers::pi)).epsilon(1e-3));
    CHECK(m.square == approx(rate * rate).epsilon(1e-3));
  }
}

TEST_CASE("update law: one AdamW step is the gradient's sign, with mean slope √(2/π)/s, also for β₁ and β₂ near 1") {
  const UpdateLaw::Moments m = adam_of(1).moments(Matrix::Constant(1, 1, 9.0));
  CHECK(std::abs(m.slope(0) - rates[0] * std::sqrt(2.0 / std::numbers::pi) / 3.0) < 1e-5);
  CHECK(std::abs(m.square - rates[0] * rates[0]) < 1e-5);
  Eigen::MatrixXf gradients(1, 2);
  gradients << -2.0F, 1e-3F;
  OptimizerLaw slow = adam({0.5});
  slow.beta1 = 0.999999;
  slow.beta2 = 0.999999999;  // rounds to 1 in float
  for (const UpdateLaw& law : {adam_of(1), UpdateLaw(slow, {1.0}, 1.0)}) {
    const Eigen::MatrixXf taken = law.update_of({gradients});
    CHECK(std::abs(taken(0, 0) + 0.5F) < 1e-6F);
    CHECK(std::abs(taken(0, 1) - 0.5F) < 1e-6F);
  }
}

TEST_CASE("update law: zero gradients and zero steps give zero moments") {
  CHECK(adam_of(2).moments(Matrix::Zero(2, 2)).square == 0.0);
  CHECK(adam_of(2).moments(Matrix(0, 0)).slope.size() == 0);
}

TEST_CASE("update law: SGD with momentum is a weighted sum") {
  OptimizerLaw heavy = sgd({0.1, 0.2});
  heavy.momentum = 0.5;
  const UpdateLaw law(heavy, {1.0, 0.5}, 1.0);
  const UpdateLaw::Moments m = law.moments(Matrix::Identity(2, 2));
  CHECK(m.slope(0) == approx(0.1 + 0.2 * 0.5));
  CHECK(m.slope(1) == approx(0.2 * 0.5));
  CHECK(m.square == approx(0.04 + 0.01));
  CHECK(law.is_linear());
}

TEST_CASE("update law: decay applies to weights and earlier updates") {
  OptimizerLaw decaying = adam({0.5, 0.25, 0.125});
  decaying.weight_decay = 0.4;
  const UpdateLaw law(decaying, {1.0, 1.0, 1.0}, 1.0);
  const Eigen::MatrixXf g = Eigen::MatrixXf::Constant(1, 1, -3.0F);
  const double expected = (0.5 * 0.9 + 0.25) * 0.95 + 0.125;
  CHECK(std::abs(law.update_of({g, g, g})(0, 0) + expected) < 1e-5);
  CHECK(law.moments(Matrix::Constant(3, 3, 9.0)).square == approx(expected * expected).epsilon(1e-3));
  CHECK(law.decay_factor(0) == 1.0);
  CHECK(law.decay_factor(3) == approx(0.8 * 0.9 * 0.95));
  decaying.adam = false;
  decaying.momentum = 0.5;
  const UpdateLaw linear(decaying, {1.0, 1.0, 1.0}, 1.0);
  CHECK(linear.moments(Matrix::Identity(2, 2)).slope(0) == approx(0.5 * 0.9 + 0.25 * 0.5));
}

}  // namespace
}  // namespace periscope::theory
