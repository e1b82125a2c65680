#include "theory/certify/bounds.h"

#include "tests/support/doctest.h"

#include <Eigen/Dense>
#include <cmath>
#include <limits>
#include <vector>

#include "theory/certify/spectral_norm.h"

namespace periscope::theory {
namespace {

using doctest::Approx;

Approx to_13_digits(double x) { return Approx(x).epsilon(1e-13); }

/// Returns ∂(γ x̂)/∂x, entry by entry from the definition.
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

TEST_CASE("a zero input has an infinite slope without eps, unless another factor is 0") {
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
