#include "theory/attention/pattern_products.h"

#include "tests/support/doctest.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sim/base/processor.h"
#include "tests/support/tolerances.h"
#include "theory/attention/flushed_subnormals.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

Sample drawn(Index rows, Index cols, std::uint64_t place) {
  return NormalStream({7, 0, place}).normals_float(rows, cols);
}

/// Compares with a·b by Eigen in double. A sum of n products in float has an error of at most γ_n Σ|a||b|.
void check_product(const Sample& found, const Sample& a, const Sample& b, bool lower_only) {
  const Matrix exact = a.cast<double>() * b.cast<double>();
  const Matrix size = a.cwiseAbs().cast<double>() * b.cwiseAbs().cast<double>();
  REQUIRE(found.rows() == exact.rows());
  REQUIRE(found.cols() == exact.cols());
  const double share = testing::rounding_bound(static_cast<double>(a.cols()), DType::f32);
  double worst = 0.0;
  for (Index j = 0; j < exact.cols(); ++j) {
    for (Index i = lower_only ? j : 0; i < exact.rows(); ++i) {
      const double error = std::abs(static_cast<double>(found(i, j)) - exact(i, j));
      if (error > 0.0) worst = std::max(worst, error / (share * size(i, j)));
    }
  }
  CHECK(worst <= 1.0);
}

TEST_CASE("products with patterns agree with Eigen in double for every shape") {
  for (const Index tokens : {1, 2, 7, 8, 15, 16, 17, 31, 33, 48, 65, 128, 131}) {
    for (const bool causal : {false, true}) {
      CAPTURE(tokens);
      CAPTURE(causal);
      Sample a = drawn(tokens, tokens, 1);
      if (causal) a = Sample(a.triangularView<Eigen::Lower>());
      const Sample k = drawn(tokens, tokens, 2);
      const Sample symmetric = k + k.transpose();
      const Sample x = drawn(tokens, 5 + tokens / 2, 3);
      const FloatFactor pattern = factor_of(a, causal);
      const auto check = [](const FloatFactor& left, const FloatFactor& right, const Sample& l, const Sample& r,
                            bool lower_only = false) {
        Sample out;
        product_into(out, left, right, lower_only);
        check_product(out, l, r, lower_only);
        return out;
      };
      const auto check_symmetric = [](const FloatFactor& left, const FloatFactor& right, const Sample& l,
                                      const Sample& r, bool lower_only) {
        Sample out;
        symmetric_product_into(out, left, right);
        check_product(out, l, r, lower_only);
        CHECK(out == out.transpose());
      };
      check(pattern, factor_of(x), a, x);
      check(transposed(pattern), factor_of(x), a.transpose(), x);
      check(factor_of(k), pattern, k, a);
      check(factor_of(k), transposed(pattern), k, a.transpose());
      const Sample y = drawn(tokens, x.cols(), 4);
      check(factor_of(x), transposed(factor_of(y)), x, y.transpose(), causal);
      check_symmetric(factor_of(x), transposed(factor_of(x)), x, x.transpose(), false);
      const Sample left = check(pattern, factor_of(symmetric), a, symmetric);
      check_symmetric(factor_of(left), transposed(pattern), left, a.transpose(), true);
      const Sample right = check(factor_of(symmetric), pattern, symmetric, a);
      check(transposed(pattern), factor_of(right), a.transpose(), right, true);
    }
  }
}

TEST_CASE("add_outer adds a weighted outer product") {
  const Sample x = drawn(37, 11, 1);
  Sample sum = Sample::Ones(37, 37);
  add_outer(sum, x, -2.0F);
  Sample plain;
  symmetric_product_into(plain, factor_of(x), transposed(factor_of(x)));
  for (Index j = 0; j < 37; ++j) {
    for (Index i = j; i < 37; ++i) CHECK(sum(i, j) == std::fma(-2.0F, plain(i, j), 1.0F));  // the factor 2 is exact
  }
}

TEST_CASE("every instruction set gives the same bits") {
  const Sample a = Sample(drawn(77, 77, 1).triangularView<Eigen::Lower>());
  const Sample x = drawn(77, 53, 2);
  Sample first;
  for (const FloatProductLevel& level : float_product_levels()) {
    if (level.processor > processor_level()) continue;
    for (const bool triangular : {true, false}) {  // zero terms do not change the sum
      Sample out(77, 53);
      level.function()(
          {.a = factor_of(a, triangular), .b = factor_of(x), .c = out.data(), .c_column_step = out.outerStride()});
      if (first.size() == 0) first = out;
      CHECK(out == first);
    }
  }
}

TEST_CASE("subnormal numbers are flushed only within the scope") {
  volatile float small = 1e-30F;
  const auto is_zero = [&] {
    volatile const float product = small * 1e-10F;
    return product == 0.0F;
  };
  CHECK(!is_zero());
  try {
    const FlushedSubnormals flushed;
#if defined(__SSE2__) || defined(__aarch64__)
    CHECK(is_zero());
#endif
    throw 1;
  } catch (int) {
    CHECK(!is_zero());
  }
}

}  // namespace
}  // namespace periscope::theory
