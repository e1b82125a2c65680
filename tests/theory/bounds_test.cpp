#include "theory/certify/bounds.h"

#include "tests/support/doctest.h"

#include <Eigen/Dense>
#include <cmath>
#include <vector>

#include "theory/certify/spectral_norm.h"

namespace periscope::theory {
namespace {

doctest::Approx to_13_digits(double x) { return approx(x).epsilon(1e-13); }

TEST_CASE("for a zero input the gradient bound is infinite without eps, unless the gradient is 0") {
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

TEST_CASE("spectral_norm equals the largest singular value, even if squares underflow") {
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
