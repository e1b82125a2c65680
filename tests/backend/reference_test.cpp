#include <cmath>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/targets.h"

/// The reference backend defines every op. Products, norms, RoPE, attention and activations are compared with plain
/// loops (tests/model/stack_test.cpp); the other ops are compared here with hand-computed numbers.
namespace periscope::testing {
namespace {

using Values = std::vector<double>;

Tensor matrix(Tensor::Index rows, Tensor::Index cols, const Values& values) {
  return truth().from_host(rows, cols, DType::f64, values);
}

void check_values(const Tensor& actual, const Values& expected) {
  const Values values = truth().to_host(actual);
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(values[i] == approx(expected[i]).epsilon(1e-14));
  }
}

TEST_CASE("reference: elementwise ops, gather, column sums and soft cap match hand-computed values") {
  const Tensor x = matrix(2, 2, {1, 2, 3, 4});
  check_values(truth().axpby(2.0, x, -1.0, matrix(2, 2, {0, 1, 0, 1})), {2, 3, 6, 7});
  check_values(truth().scale(-0.5, x), {-0.5, -1, -1.5, -2});
  check_values(truth().gather(x, std::vector<int>{1, 0, 1}), {3, 4, 1, 2, 3, 4});
  check_values(truth().constant(1, 3, DType::f64, 7.0), {7, 7, 7});
  check_values(truth().add_row(x, matrix(1, 2, {10, -1})), {11, 1, 13, 3});
  check_values(truth().column_sums(x), {4, 6});
  check_values(truth().soft_cap(2.0, matrix(1, 3, {2, -1e9, 0})), {2 * std::tanh(1.0), -2, 0});
}

TEST_CASE("reference: activations match known values at 1, -1, 0 and far in the tails") {
  const Tensor x = matrix(1, 5, {1, -1, 0, 1e4, -1e4});
  check_values(truth().activate(Activation::relu, x), {1, 0, 0, 1e4, 0});
  check_values(truth().activate(Activation::gelu, x), {0.841344746068542949, -0.158655253931457051, 0, 1e4, 0});
  check_values(truth().activate(Activation::silu, x), {0.731058578630004879, -0.268941421369995121, 0, 1e4, 0});
  check_values(truth().activate(Activation::sigmoid, x), {0.731058578630004879, 0.268941421369995121, 0.5, 1, 0});
  // ½(1 + tanh(√(2/π)·1.044715)), computed with 30 digits.
  check_values(truth().activate(Activation::gelu_tanh, x), {0.841191990608276747, -0.158808009391723253, 0, 1e4, 0});
  check_values(truth().gated(Activation::silu, x, matrix(1, 5, {2, 3, 4, 0.5, 6})),
               {2 * 0.731058578630004879, -3 * 0.268941421369995121, 0, 5e3, 0});
  // Relative precision is preserved in the left tail: −10·Φ(−10).
  check_values(truth().activate(Activation::gelu, matrix(1, 1, {-10})), {-7.61985302416052606e-23});
}

TEST_CASE("reference: row moments of (1, 2, 3, 6) match hand-computed values") {
  const RowMoments m = truth().row_moments(matrix(2, 4, {1, 2, 3, 6, -1, -2, -3, -6}));
  const double sign[] = {1.0, -1.0};
  for (std::size_t t = 0; t < 2; ++t) {
    CHECK(m[Statistic::mean][t] == sign[t] * 3.0);
    CHECK(m[Statistic::second_moment][t] == 12.5);
    CHECK(m[Statistic::variance][t] == 3.5);
    CHECK(m[Statistic::kurtosis][t] == approx(4.0 * (16 + 1 + 0 + 81) / (14.0 * 14.0)));
    CHECK(m[Statistic::maximum][t] == 6.0);
  }
}

TEST_CASE("reference: row dots, token cosine and top magnitudes match hand-computed values") {
  const Tensor x = matrix(2, 2, {1, 2, 3, -4});
  CHECK(truth().row_dots(x, matrix(2, 2, {5, 6, 7, 8})) == Values{17, -11});
  CHECK(truth().statistics_of(x, {.top_magnitudes = 3}).top_magnitudes == Values{4, 3, 2});
  CHECK(truth().statistics_of(x, {.top_magnitudes = 9}).top_magnitudes == Values{4, 3, 2, 1});
  const auto cosine = [](const Tensor& y, int sequences) {
    return truth().statistics_of(y, {.cosine_of_sequences = sequences}).token_cosine;
  };
  // Three tokens with pairwise angles of 60, 120 and 60 degrees; then two pairs with angles of 0 and 180 degrees.
  const double h = std::sqrt(0.75);
  CHECK(cosine(matrix(3, 2, {2, 0, 0.5, h, -0.5, h}), 1) == approx((0.5 + 0.5 - 0.5) / 3));
  CHECK(cosine(matrix(4, 1, {1, 5, 2, -3}), 2) == 0.0);
  CHECK(std::isnan(cosine(x, 2)));
  CHECK(std::isnan(cosine(matrix(2, 2, {1, 2, 0, 0}), 1)));
}

}  // namespace
}  // namespace periscope::testing
