#include "theory/certify/bounded_set.h"

#include "tests/support/doctest.h"

#include <Eigen/SVD>
#include <cmath>
#include <random>

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

RowMatrix random_matrix(Index rows, Index cols, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  RowMatrix w(rows, cols);
  for (Index i = 0; i < w.size(); ++i) w.data()[i] = normal(engine);
  return w;
}

TEST_CASE("with eps the bound of a norm's output decreases with the length of its input") {
  constexpr Index width = 7;
  const Vector gain = Vector::Ones(width);
  const BoundedSet small = ball(Vector::Constant(width, 0.1), 0.2);
  const BoundedSet y = normalised(small, {NormKind::rms, 0.01, gain, {}});
  CHECK(y.magnitude()[0] == approx(0.1 / std::sqrt(0.01 / width + 0.01)).epsilon(1e-12));
  CHECK(y.norm() == approx(std::sqrt(7.0) * 0.2 / std::sqrt(0.04 + 0.07)).epsilon(1e-12));
  BoundedSet silent = small;
  silent.low[3] = silent.high[3] = 0.0;
  CHECK(normalised(silent, {NormKind::rms, 0.0, gain, {}}).magnitude()[3] == 0.0);
}

TEST_CASE("activations of an interval equal the extrema on a fine grid") {
  const std::pair<Activation, std::function<double(double)>> kinds[] = {
      {Activation::relu, [](double u) { return std::max(u, 0.0); }},
      {Activation::gelu, [](double u) { return u / 2 * std::erfc(-u / std::sqrt(2.0)); }},
      {Activation::silu, [](double u) { return u / (1 + std::exp(-u)); }},
      {Activation::gelu_tanh,
       [](double u) { return u / 2 * (1 + std::tanh(std::sqrt(2.0 / M_PI) * (u + 0.044715 * u * u * u))); }}};
  for (const auto& [kind, f] : kinds) {
    for (const auto& [low, high] : {std::pair{-3.0, 2.0}, {-3.0, -1.5}, {-0.5, 4.0}, {-9.0, -0.1}, {0.3, 0.4}}) {
      double least = infinity;
      double most = -infinity;
      constexpr int steps = 200'000;
      for (int i = 0; i <= steps; ++i) {
        const double y = f(low + (high - low) * i / steps);
        least = std::min(least, y);
        most = std::max(most, y);
      }
      const BoundedSet y = activated(kind, {Vector::Constant(1, low), Vector::Constant(1, high), {}});
      CHECK(y.low[0] <= least + 1e-15);
      CHECK(y.low[0] == approx(least).epsilon(1e-9));
      CHECK(y.high[0] >= most - 1e-15);  // 1e-15 allows for rounding of grid values
      CHECK(y.high[0] == approx(most).epsilon(1e-12).scale(1e-12));
    }
  }
}

TEST_CASE("spectral_bound is a tight upper bound of the spectral norm") {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {3, 9}, {9, 3}, {40, 40}, {65, 130}, {130, 64}}) {
    const RowMatrix a = random_matrix(rows, cols, static_cast<unsigned>(rows));
    const double sigma = Eigen::JacobiSVD<Eigen::MatrixXd>(a).singularValues()[0];
    CHECK(spectral_bound(a) >= sigma);
    CHECK(spectral_bound(a) <= 1.03 * sigma);
  }
  CHECK(spectral_bound(RowMatrix::Zero(3, 4)) == 0.0);
  const RowMatrix one = Vector::Constant(30, 2.0) * Eigen::RowVectorXd::Constant(20, 0.5);
  CHECK(spectral_bound(one) == approx(std::sqrt(600.0)).epsilon(1e-3));
  CHECK(spectral_bound(RowMatrix::Identity(50, 50)) == approx(1.0).epsilon(2e-3));
  RowMatrix broken = random_matrix(3, 3, 1);
  broken(1, 1) = std::nan("");
  CHECK(spectral_bound(broken) == infinity);
}

/// The leading eigenvector is orthogonal to the start of the power iteration, so the proof fails until the bound is
/// large enough.
TEST_CASE("the eigenvalue bound holds even if the power iteration misses the largest eigenvalue") {
  RowMatrix gram = RowMatrix::Zero(3, 3);
  gram.topLeftCorner(2, 2) << 1.0, 0.9, 0.9, 1.0;
  gram(2, 2) = 1.5;
  CHECK(largest_eigenvalue_bound(gram, 3) >= 1.9);
  CHECK(largest_eigenvalue_bound(gram, 3) <= 1.9 * 1.03);
}

TEST_CASE("bounds stay valid for weights near the limits of double") {
  CHECK(BoundedSet(point(Vector::Constant(3, 1e-200))).norm() >= 1.7e-200);
  CHECK(BoundedSet(point(Vector::Constant(3, 1e200))).norm() <= 1.8e200);
  CHECK(spectral_bound(RowMatrix::Constant(5, 4, 5e-324)) >= 4.4 * 5e-324);  // the iteration also terminates
  CHECK(spectral_bound(RowMatrix::Constant(2, 2, 1e300)) == approx(2e300).epsilon(1e-2));
  // The bound is infinite if a product overflows or is NaN.
  const RowMatrix w = RowMatrix::Constant(1, 2, 1e200);
  CHECK(image_and_sums(w, ball(Vector::Constant(2, 1e200), infinity)).set.magnitude()[0] == infinity);
  Vector broken(2);
  broken << 1.0, std::nan("");
  CHECK(largest_of(broken) == infinity);
  CHECK(norm_of(broken) == infinity);
  // x ≈ 1e-170: its squares underflow, but x/√(x² + ε) is 1e-20.
  const BoundedSet y =
      normalised(ball(Vector::Constant(4, 1e-170), 2e-170), {NormKind::rms, 1e-300, Vector::Constant(4, 1e30), {}});
  CHECK(y.magnitude()[0] == approx(1e10).epsilon(1e-9));
  CHECK(y.norm() == approx(2e10).epsilon(1e-9));
}

}  // namespace
}  // namespace periscope::theory
