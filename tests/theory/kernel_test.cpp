#include "theory/norms/norm_law.h"

#include "tests/support/doctest.h"

#include <cmath>

namespace periscope::theory {
namespace {

Matrix two_by_two(double a, double b, double ab) {
  Matrix k(2, 2);
  k << a, ab, ab, b;
  return k;
}

void check_matrix(const Matrix& actual, const Matrix& expected) {
  REQUIRE(actual.rows() == expected.rows());
  for (Eigen::Index i = 0; i < expected.size(); ++i) CHECK(actual(i) == approx(expected(i)).epsilon(1e-14));
}

TEST_CASE("LayerNorm first removes the kernel of the mean (T2)") {
  const TokenKernel x{two_by_two(5.0, 10.0, 3.5), two_by_two(1.0, 1.0, 0.5)};
  const TokenKernel y = dividing_law.kernel(x, {.kind = NormKind::layer, .eps = 0.0, .width = 2}, 3.0);
  check_matrix(y.product, two_by_two(9.0, 9.0, 9.0 * 3.0 / 6.0));
  check_matrix(y.mean, Matrix::Zero(2, 2));
}

TEST_CASE("a zero token stays zero without eps (T2)") {
  const TokenKernel x{two_by_two(0.0, 4.0, 0.0), Matrix::Zero(2, 2)};
  check_matrix(dividing_law.kernel(x, {.kind = NormKind::rms, .eps = 0.0, .width = 2}, 1.0).product,
               two_by_two(0.0, 1.0, 0.0));
}

TEST_CASE("input_kernel is a correlated Gaussian, or table rows by id with all options of EmbeddingSpec") {
  StackSpec spec;
  spec.model.width = 8;
  spec.input.tokens = 3;
  spec.input.second_moment = 2.0;
  spec.input.correlation = 0.25;
  Matrix expected = Matrix::Constant(3, 3, 0.5);
  expected.diagonal().setConstant(2.0);
  check_matrix(input_kernel(spec, {}).product, expected);
  check_matrix(input_kernel(spec, {}).mean, expected / 8.0);
  Matrix same_id(3, 3);
  same_id << 1, 0, 1, 0, 1, 0, 1, 0, 1;
  const Matrix one = Matrix::Identity(3, 3);
  const auto kernel = [&] { return input_kernel(spec, {7, 1, 7}).product; };
  check_matrix(kernel(), 2.0 * same_id);  // the correlation applies to Gaussian input only
  spec.model.embedding.scale = 3.0;
  check_matrix(kernel(), 18.0 * same_id);
  spec.model.embedding.positions = 3;  // one row per position
  check_matrix(kernel(), 18.0 * same_id + 2.0 * one);
  spec.model.embedding.token_types = 2;  // every token reads the first row
  check_matrix(kernel(), ((18.0 * same_id + 2.0 * one).array() + 2.0).matrix());
  spec.init.embedding_std = 0.5;
  spec.init.position_std = 0.25;
  check_matrix(kernel(), ((2.25 * same_id + 0.0625 * one).array() + 0.25).matrix());
  spec.init = {.std = 0.5};  // width · std² = 4 · 0.25 = 1
  spec.model.embedding = {.width = 4};
  check_matrix(kernel(), 2.0 * same_id);
}

TEST_CASE("the token cosine of a kernel is the mean over pairs of distinct tokens") {
  Matrix k(3, 3);
  k << 1.0, 1.0, 0.0, 1.0, 4.0, 3.0, 0.0, 3.0, 9.0;
  CHECK(token_cosine(k) == approx((0.5 + 0.0 + 0.5) / 3));
  CHECK(token_cosine(Matrix::Constant(4, 4, 2.5)) == approx(1.0));
  CHECK(std::isnan(token_cosine(Matrix::Constant(1, 1, 1.0))));
}

}  // namespace
}  // namespace periscope::theory
