#include "sim/numerics/number_format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sim/core/tensor.h"
#include "sim/numerics/rounding.h"
#include "sim/numerics/stored_bits.h"
#include "sim/numerics/tolerances.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

template <class T>
void check_is(const NumberFormat& format) {
  using Limits = std::numeric_limits<T>;
  CHECK(format.largest == static_cast<double>(Limits::max()));
  CHECK(format.precision == Limits::digits);
  CHECK(format.spacing_at_1() == static_cast<double>(Limits::epsilon()));
  CHECK(format.unit_roundoff() == static_cast<double>(Limits::epsilon()) / 2.0);
  CHECK(format.smallest_subnormal() == static_cast<double>(Limits::denorm_min()));
}

TEST_CASE("a dtype's format is that of its C++ type") {
  check_is<double>(format_of(DType::f64));
  check_is<float>(format_of(DType::f32));
}

TEST_CASE("roundings in a row, by hand: 1/(1 - 1/4) - 1, and not below n u") {
  CHECK(rounding_bound(1.0, 0.25) == 1.0 / 3.0);
  CHECK(rounding_bound(2.0, 0.125) == 1.0 / 3.0);
  CHECK(rounding_bound(100.0, fp32.unit_roundoff()) > 100.0 * fp32.unit_roundoff());
}

TEST_CASE("mixed arithmetic accumulates in fp32, or in the format if that is wider") {
  for (const NumberFormat& format : number_formats) {
    CHECK(run_arithmetic(Arithmetic::mixed, format).accumulated.name == "fp32");
    CHECK(run_arithmetic(Arithmetic::pure, format).accumulated.name == format.name);
  }
  CHECK(run_arithmetic(Arithmetic::mixed, fp64).accumulated.name == "fp64");
}

/// Every finite value of the bits is one that rounding to the format keeps, and the largest is the format's.
template <class Bits>
void check_bits(const NumberFormat& format) {
  const Rounding rounding(format);
  double largest = 0.0;
  for (std::uint32_t bits = 0; bits <= std::numeric_limits<typename Bits::Stored>::max(); ++bits) {
    const auto x = static_cast<double>(Bits::decode(static_cast<typename Bits::Stored>(bits)));
    if (!std::isfinite(x)) continue;
    REQUIRE(rounding(x) == x);
    largest = std::max(largest, x);
  }
  CHECK(largest == format.largest);
}

TEST_CASE("stored bits and the formats that rounding knows are the same numbers") {
  check_bits<Bf16>(number_formats[1]);
  check_bits<F16>(number_formats[2]);
  check_bits<F8E5m2>(number_formats[3]);
  check_bits<F8E4m3>(number_formats[4]);
}

TEST_CASE("allowances have the values that verdicts were given with") {
  CHECK(forward_tolerance(fp64) == 100.0 * std::numeric_limits<double>::epsilon());
  CHECK(forward_tolerance(fp32) == 100.0 * static_cast<double>(std::numeric_limits<float>::epsilon()));
  CHECK(backward_tolerance(fp64) == 1e-13);
  CHECK(backward_tolerance(fp32) == 1e-5);
  CHECK(attained_limit == 1.0 + 1e-9);
}

}  // namespace
}  // namespace periscope
