#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/cuda/on_host/backend.h"
#include "sim/numerics/rounding.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/op_cases.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

/// bf16 and f16: stored in 16 bits, computed in f32.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

/// Numbers on and next to every boundary of a format: ties, subnormals, overflow.
Values awkward_numbers(const NumberFormat& format) {
  Values numbers{0.0, infinite, 0.1, 1e300, 1e-300, format.largest, format.smallest_subnormal()};
  const double u = format.unit_roundoff();
  for (const double base : {1.0, 3.0, format.largest, std::ldexp(1.0, format.least_exponent),
                            5.0 * format.smallest_subnormal(), 0.5 * format.smallest_subnormal()}) {
    for (const double share : {0.5 * u, u, 1.5 * u, 2.0 * u, 3.0 * u}) {
      for (const double nudge : {0.0, 1e-12, -1e-12}) {
        numbers.push_back(base * (1.0 + share) * (1.0 + nudge));
        numbers.push_back(base * (1.0 - share) * (1.0 + nudge));
      }
    }
  }
  const std::size_t half = numbers.size();
  for (std::size_t i = 0; i < half; ++i) numbers.push_back(-numbers[i]);
  return numbers;
}

TEST_CASE("narrow dtypes: values are rounded once, to nearest, ties to even; NaN stays NaN") {
  CHECK(narrow_targets().size() >= 2);  // both dtypes of the CUDA backend on the host
  for (const Target& target : narrow_targets()) {
    const Rounding round(format_of(target.dtype));
    Values numbers = awkward_numbers(format_of(target.dtype));
    for (double x = 1e-9; x < 1e6; x *= 1.0173) numbers.push_back(x);
    Values expected = numbers;
    for (double& x : expected) x = round(x);
    const auto n = static_cast<Index>(numbers.size());
    const Tensor x = target.backend->from_host(1, n, target.dtype, numbers);
    check_same_bits(target.name() + " from_host", target.backend->to_host(x), expected);
    const Tensor with_nan = target.backend->from_host(
        1, 3, target.dtype, Values{nan, -nan, std::bit_cast<double>(~std::uint64_t{0} >> 1U)});
    for (const double v : target.backend->to_host(with_nan)) CHECK(std::isnan(v));
  }
}

TEST_CASE("narrow dtypes: the product in f32 rounds like the exact product at every boundary") {
  for (const Target& target : narrow_targets()) {
    const Rounding round(format_of(target.dtype));
    for (const double a : awkward_numbers(format_of(target.dtype))) {
      if (!std::isfinite(a)) continue;
      const Twin x = twin_of(target, 1, 1, Values{a});
      for (const double factor : {0.5, 0.75, 1.0625, 1.0009765625}) {
        // A product of 11-bit and 12-bit numbers is exact in f32, except below f32's normal range (subnormals of bf16).
        const double exact = truth().to_host(x.truth)[0] * factor;
        if (std::abs(exact) < 0x1p-126) continue;
        check_same_bits(target.name() + " scale", target.backend->to_host(target.backend->scale(factor, x.here)),
                        Values{round(exact)});
      }
    }
  }
}

TEST_CASE("narrow dtypes: moments accumulate in double; row maxima propagate NaN, selections rank NaN highest") {
  for (const Target& target : narrow_targets()) {
    const Backend& ops = *target.backend;
    const Twin x = normal_twin(target, 33, 257, 40);
    const RowMoments m = ops.row_moments(x.here);
    const RowMoments expected = truth().row_moments(x.truth);
    for (std::size_t t = 0; t < 33; ++t) {
      CHECK(std::abs(m[Statistic::variance][t] - expected[Statistic::variance][t]) <=
            variance_error(257, expected[Statistic::variance][t], 1.0));
      CHECK(m[Statistic::maximum][t] == expected[Statistic::maximum][t]);
    }
    const Twin with_nan = twin_of(target, 2, 3, Values{3.0, nan, 1.0, 2.0, -5.0, 0.5});
    CHECK(std::isnan(ops.row_moments(with_nan.here)[Statistic::maximum][0]));
    CHECK(ops.row_moments(with_nan.here)[Statistic::maximum][1] == 5.0);
    CHECK(ops.statistics_of(with_nan.here, {.top_magnitudes = 3}).top_magnitudes == Values{infinite, 5.0, 3.0});
    CHECK(ops.statistics_of(with_nan.here, {.top_entries = 2}).top_entries[1] == Entry{1, 1, -5.0});
    CHECK(ops.statistics_of(with_nan.here, {.median_magnitude = true}).median_magnitude == 2.5);
    CHECK(ops.column_maxima(with_nan.here) == Values{3.0, infinite, 1.0});
  }
}

TEST_CASE("narrow dtypes: linear_weight_square does not round the gradient to the dtype") {
  for (const Target& target : narrow_targets()) {
    const Twin x = twin_of(target, 33, 40, Values(33 * 40, 1e-4));
    const Twin dy = twin_of(target, 33, 5, Values(33 * 5, 1e-5));
    const Values actual = target.backend->to_host(target.backend->linear_weight_square(dy.here, x.here));
    const Values expected = truth().to_host(truth().linear_weight_square(dy.truth, x.truth));
    // All terms are positive. The result is the square of a sum of 33 products in f32.
    check_close(target.name(), actual, expected, 2.0 * rounding_bound_of_both(34, DType::f32) * expected[0]);
  }
}

TEST_CASE("TF32: only the operands of f32 products are rounded to 11 bits") {
  const Target in_tf32{make_cuda_backend_on_host({.tf32 = true}), DType::f32};
  const Target in_f32{make_cuda_backend_on_host(), DType::f32};
  CHECK(in_tf32.backend->name() == "cuda on host, TF32");
  const Twin x = normal_twin(in_tf32, 33, 257, 1);
  const Twin w = normal_twin(in_tf32, 65, 257, 2);
  const Values expected = truth().to_host(truth().linear(x.truth, w.truth));
  const Values size = truth().to_host(truth().linear(magnitude(x.truth), magnitude(w.truth)));
  constexpr double rounded_operands = 2.0 * 0x1p-11 + 0x1p-22;
  const double in_sums = dot_error(257, DType::f32);
  const Values actual = in_tf32.backend->to_host(in_tf32.backend->linear(x.here, w.here));
  check_close("TF32", actual, expected, scaled(rounded_operands + in_sums, size));
  CHECK(residual(actual, expected, scaled(in_sums, size)).worst > 1.0);
  const auto same = [&](const char* what, const auto& op) {
    check_same_bits(what, in_tf32.backend->to_host(op(in_tf32)), in_f32.backend->to_host(op(in_f32)));
  };
  same("f64", [](const Target& t) {
    const Tensor y = t.backend->normal(5, 7, DType::f64, {1, 2, Stream{3}}, 1.0);
    return t.backend->linear(y, y);
  });
  same("multiply", [&](const Target& t) { return t.backend->multiply(x.here, x.here); });
}

}  // namespace
}  // namespace periscope::testing
