#include "theory/certify/bounds.h"

#include "tests/support/doctest.h"

#include <Eigen/Dense>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "theory/certify/spectral_norm.h"

namespace periscope::theory {
namespace {

using doctest::Approx;

constexpr double root2 = std::numbers::sqrt2;

Approx to_13_digits(double x) { return Approx(x).epsilon(1e-13); }

/// ∂(γ x̂)/∂x, entry by entry from the definition.
Eigen::MatrixXd jacobian(NormKind kind, const Eigen::VectorXd& x, const Eigen::VectorXd& gain, double eps) {
  const auto n = static_cast<double>(x.size());
  const Eigen::VectorXd centred = kind == NormKind::layer ? Eigen::VectorXd(x.array() - x.mean()) : x;
  const double square = centred.squaredNorm() / n + eps;
  Eigen::MatrixXd j = Eigen::MatrixXd::Identity(x.size(), x.size()) / std::sqrt(square) -
                      centred * centred.transpose() / (n * square * std::sqrt(square));
  if (kind == NormKind::layer) j.array() -= 1.0 / (n * std::sqrt(square));
  return gain.asDiagonal() * j;
}

NormPass pass_of(NormKind kind, const Eigen::VectorXd& x, const Eigen::VectorXd& gain, double eps) {
  const double mean = kind == NormKind::layer ? x.mean() : 0.0;
  return {kind, static_cast<int>(x.size()), gain.cwiseAbs().maxCoeff(), (x.array() - mean).square().mean(), eps};
}

TEST_CASE("T14: gamma/sqrt(v + eps) is the largest singular value of a norm's Jacobian") {
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    for (const int d : {1, 2, 3, 7}) {
      if (kind == NormKind::layer && d == 1) continue;
      for (const double eps : {0.0, 0.3}) {
        CAPTURE(d);
        CAPTURE(eps);
        Eigen::VectorXd x(d);
        for (int i = 0; i < d; ++i) x[i] = 2.0 * std::sin(1.0 + 3.0 * i);
        const Eigen::VectorXd even = Eigen::VectorXd::Constant(d, -0.7);
        const double norm = jacobian(kind, x, even, eps).jacobiSvd().singularValues()[0];
        CHECK(std::abs(norm - jacobian_norm(pass_of(kind, x, even, eps))) <= 1e-14);
        Eigen::VectorXd uneven = even;
        uneven[d - 1] = 1.5;
        const double other = jacobian(kind, x, uneven, eps).jacobiSvd().singularValues()[0];
        CHECK(other <= jacobian_norm(pass_of(kind, x, uneven, eps)) * (1.0 + 1e-14) + 1e-14);
      }
    }
  }
}

TEST_CASE("factors worked out by hand") {
  const NormPass norm{NormKind::rms, 8, 3.0, 4.0, 0.0};  // gamma/rms = 1.5
  const GradientPath path{.wrong_probability = 0.5, .norms = {norm}};
  CHECK(path_norm(path) == to_13_digits(1.5));
  CHECK(sharp_factor(path) == to_13_digits(root2 * 0.5 * 1.5));
  CHECK(sharp_entry_factor(path) == to_13_digits(0.5 * (1.0 + root2) * 0.5 * 1.5));
  // 4 gamma sqrt(D)/|a| with |a| = sqrt(8 * 4)
  CHECK(paper_factor(path) == to_13_digits(4.0 * 3.0 * std::sqrt(8.0) / std::sqrt(32.0)));
  CHECK(review_factor(path) == to_13_digits(4.0 * 3.0 * std::sqrt(1.0 / 8.0) / std::sqrt(32.0)));

  const std::vector<NormPass> two{norm, {NormKind::layer, 8, 1.0, 0.0, 0.25}};
  const GradientPath longer{.wrong_probability = 1.0, .beta = -2.0, .unembedding = 5.0, .norms = two};
  CHECK(sharp_factor(longer) == to_13_digits(root2 * 2.0 * 5.0 * 1.5 * 2.0));
  CHECK(sharp_entry_factor(longer) == sharp_factor(longer));
  CHECK(sharp_entry_factor({.wrong_probability = 0.25, .norms = {}}) == to_13_digits(0.25));
}

TEST_CASE("a zero input: infinite without eps, unless nothing comes through anyway") {
  const NormPass dead{NormKind::rms, 4, 1.0, 0.0, 0.0};
  CHECK(std::isinf(sharp_factor({.wrong_probability = 0.5, .norms = {dead}})));
  CHECK(sharp_factor({.wrong_probability = 0.0, .norms = {dead}}) == 0.0);
  CHECK(sharp_factor({.wrong_probability = 0.5, .beta = 0.0, .norms = {dead}}) == 0.0);
  const NormPass no_gain{NormKind::rms, 4, 0.0, 0.0, 0.0};
  CHECK(sharp_factor({.wrong_probability = 0.5, .norms = {no_gain}}) == 0.0);
  const NormPass one_feature{NormKind::rms, 1, 1.0, 9.0, 0.0};
  CHECK(jacobian_norm(one_feature) == 0.0);
  CHECK(gain_over_rms(one_feature) == to_13_digits(1.0 / 3.0));
}

TEST_CASE(
    "|p - y| <= sqrt2 (1 - p_y), with equality for one wrong label; no entry passes (1+sqrt2)/2 of a projection") {
  for (const double rest : {0.0, 0.2, 0.5}) {
    const double p[] = {0.3, 0.7 - rest, rest};  // the label is 0
    const double norm = std::sqrt(0.49 + p[1] * p[1] + p[2] * p[2]);
    CHECK(norm <= root2 * 0.7 * (1.0 + 1e-15));
    CHECK((norm == Approx(root2 * 0.7).epsilon(1e-15)) == (rest == 0.0));
  }
  // v = e_0 - e_1, and the direction a for which the projection across a has the largest entry 0
  double largest = 0.0;
  for (int k = 0; k < 100000; ++k) {
    const double angle = std::numbers::pi * k / 100000.0;
    const double a[] = {std::cos(angle), std::sin(angle)};
    largest = std::max(largest, std::abs(1.0 - a[0] * (a[0] - a[1])));
  }
  CHECK(largest == Approx(0.5 * (1.0 + root2)).epsilon(1e-8));
}

TEST_CASE("T15, T16: growth") {
  CHECK(grown_second_moment(3.0, 4.0, 0.0) == to_13_digits(25.0));
  CHECK(grown_second_moment(3.0, 4.0, 1.0) == to_13_digits(49.0));
  CHECK(grown_second_moment(3.0, 4.0, -1.0) == to_13_digits(1.0));
  CHECK(normed_rms_bound(2.0, 0.5) == to_13_digits(2.5));
}

TEST_CASE("T14d: the ceiling of a massive activation is the largest bound over all factors") {
  const std::vector<double> a{1.0, 0.0, 2.0};
  for (const std::vector<double>& x : {std::vector{-3.0, 1.0, -5.0}, std::vector{2.0, 1.0, 1.0},
                                       std::vector{-1.0, 1e-3, -2.0}, std::vector{0.0, 0.0, 0.0}}) {
    const double gain = 0.5;
    const double hidden = 7.0;
    const double ceiling = massive_ceiling(gain, hidden, x, a);
    double largest = 0.0;
    for (int k = -400000; k <= 400000; ++k) {
      const double factor = std::pow(10.0, k / 100000.0);
      double square = 0.0;
      for (std::size_t i = 0; i < a.size(); ++i) square += std::pow(x[i] + factor * a[i], 2.0);
      largest = std::max(largest, root2 * gain * std::sqrt(3.0) * factor * hidden / std::sqrt(square));
    }
    CHECK(largest <= ceiling * (1.0 + 1e-12));
    CHECK(largest >= ceiling * 0.999);
  }
}

TEST_CASE("spectral norm") {
  CHECK(spectral_norm(std::vector{3.0, 0.0, 0.0, -4.0}, 2, 2) == to_13_digits(4.0));
  CHECK(spectral_norm(std::vector{3.0, 4.0}, 1, 2) == to_13_digits(5.0));
  CHECK(spectral_norm(std::vector{3e-200, 4e-200}, 2, 1) == to_13_digits(5e-200));
  CHECK(spectral_norm(std::vector{0.0, 0.0}, 2, 1) == 0.0);
  const Eigen::MatrixXd w = Eigen::MatrixXd::Random(5, 9);
  const Eigen::Matrix<double, 5, 9, Eigen::RowMajor> rows = w;
  CHECK(spectral_norm({rows.data(), 45}, 5, 9) == to_13_digits(w.jacobiSvd().singularValues()[0]));
}

}  // namespace
}  // namespace periscope::theory
