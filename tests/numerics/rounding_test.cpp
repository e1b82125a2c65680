#include "sim/numerics/rounding.h"

#include <algorithm>
#include <boost/random/mersenne_twister.hpp>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "sim/core/tensor.h"
#include "sim/numerics/stored_bits.h"
#include "sim/numerics/tolerances.h"
#include "tests/support/doctest.h"
#include "tests/support/significance.h"

/// Rounding to number formats, compared with ml_dtypes, the processor and the definitions of the formats.
namespace periscope::testing {
namespace {

using Overflow = Rounding::Overflow;

/// Returns true if both are NaN, or equal, including the sign of zero.
bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

TEST_CASE("rounding to nearest equals ml_dtypes at values, midpoints, their neighbours, subnormals and overflow") {
  std::ifstream file(ROUNDED);
  std::string name, from, to;
  std::set<std::string> names;
  int rows = 0;
  while (file >> name >> from >> to) {
    const double x = std::strtod(from.c_str(), nullptr);
    const NumberFormat& format = *std::ranges::find(number_formats, name, &NumberFormat::name);
    INFO("name := ", name, ", from := ", from);
    CHECK(same(Rounding(format)(x), std::strtod(to.c_str(), nullptr)));
    names.insert(name);
    ++rows;
  }
  CHECK(names.size() == 4);
  CHECK(rows > 1000);
}

TEST_CASE("fp32 rounds like the processor; fp64 does not round") {
  const Rounding round(fp32);
  boost::random::mt19937_64 engine(1);
  int wrong = 0;
  for (int i = 0; i < 500'000; ++i) {
    std::uint64_t bits = engine();
    const auto exponent = static_cast<std::uint64_t>(1023 - 160 + static_cast<int>(engine() % 320));
    bits = (bits & 0x800f'ffff'ffff'ffffULL) | (exponent << 52U);
    if (engine() % 2 == 0) bits &= ~((std::uint64_t{1} << (engine() % 52U)) - 1);  // few significant bits
    const auto x = std::bit_cast<double>(bits);
    wrong += !same(round(x), static_cast<double>(static_cast<float>(x)));
    wrong += !same(Rounding(fp64)(x), x);
  }
  CHECK(wrong == 0);
  CHECK(Rounding(fp64)(5e-324) == 5e-324);
}

TEST_CASE("beyond the largest number, rounding gives infinity, NaN (E4M3) or the largest number") {
  for (const NumberFormat& format : number_formats) {
    INFO(format.name);
    const Rounding stored(format);
    const Rounding infinite(format, Overflow::infinite);
    const Rounding saturating(format, Overflow::saturate);
    for (const double x : {1.999 * format.largest, 2.0 * format.largest, 1e300, HUGE_VAL}) {
      CHECK(same(stored(-x), format.name == "fp8_e4m3" ? NAN : -HUGE_VAL));
      CHECK(same(infinite(-x), -HUGE_VAL));
      CHECK(saturating(-x) == -format.largest);
      CHECK(same(stored.stochastic(x, 0), stored(x)));
      CHECK(saturating.stochastic(x, 0xffffffffU) == format.largest);
    }
    CHECK(std::isnan(saturating(NAN)));
    CHECK(std::isnan(saturating.stochastic(NAN, 1)));
  }
}

TEST_CASE("stochastic rounding rounds up for the share of random words that makes the mean exact") {
  for (const NumberFormat& format : number_formats) {
    INFO(format.name);
    const Rounding round(format);
    boost::random::mt19937_64 engine(3);
    int wrong = 0;
    for (int i = 0; i < 20'000; ++i) {
      // Numbers of all sizes, including subnormal numbers.
      const int span = 2 * format.precision + 20;
      const int exponent = format.least_exponent - format.precision - 2 + static_cast<int>(engine() % span);
      const double x = std::ldexp(1.0 + static_cast<double>(engine() >> 11U) * 0x1p-53, exponent);
      const double sign = i % 2 == 0 ? 1.0 : -1.0;
      const double distance = std::max(std::ldexp(format.spacing_at_1(), exponent), format.smallest_subnormal());
      const double lower = std::floor(x / distance) * distance;
      const double upper = lower + distance;
      if (lower > format.largest) continue;
      const double words = std::ceil(std::ldexp((x - lower) / distance, 32));  // number of words that round up
      if (words > 0.0) {
        const double up = round.stochastic(sign * x, static_cast<std::uint32_t>(words - 1.0));
        wrong += upper > format.largest ? std::isfinite(up) : up != sign * upper;
      }
      if (words < 0x1p32) wrong += round.stochastic(sign * x, static_cast<std::uint32_t>(words)) != sign * lower;
      wrong += round.stochastic(sign * lower, 0) != sign * lower;
    }
    CHECK(wrong == 0);
  }
}

/// Checks that all finite values of the bits are numbers of the format, up to its largest number.
template <class Bits>
void check_bits(const NumberFormat& format) {
  double largest = 0.0;
  for (std::uint32_t bits = 0; bits <= std::numeric_limits<typename Bits::Stored>::max(); ++bits) {
    const auto x = static_cast<double>(Bits::decode(static_cast<typename Bits::Stored>(bits)));
    if (!std::isfinite(x)) continue;
    REQUIRE(Rounding(format)(x) == x);
    largest = std::max(largest, x);
  }
  CHECK(largest == format.largest);
}

TEST_CASE("stored bits decode to numbers of their formats") {
  check_bits<Bf16>(number_formats[1]);
  check_bits<F16>(number_formats[2]);
  check_bits<F8E5m2>(number_formats[3]);
  check_bits<F8E4m3>(number_formats[4]);
}

template <class T>
void check_is(const NumberFormat& format) {
  using Limits = std::numeric_limits<T>;
  CHECK(format.largest == static_cast<double>(Limits::max()));
  CHECK(format.precision == Limits::digits);
  CHECK(format.unit_roundoff() == static_cast<double>(Limits::epsilon()) / 2.0);
  CHECK(format.smallest_subnormal() == static_cast<double>(Limits::denorm_min()));
}

TEST_CASE("a dtype has the format of its C++ type; mixed arithmetic accumulates in fp32 or wider") {
  check_is<double>(format_of(DType::f64));
  check_is<float>(format_of(DType::f32));
  for (const NumberFormat& format : number_formats) {
    CHECK(run_arithmetic(Arithmetic::mixed, format).accumulated.name == "fp32");
    CHECK(run_arithmetic(Arithmetic::pure, format).accumulated.name == format.name);
  }
  CHECK(run_arithmetic(Arithmetic::mixed, fp64).accumulated.name == "fp64");
  CHECK(rounding_bound(2.0, 0.125) == 1.0 / 3.0);  // γ_n = nu/(1 − nu)
}

}  // namespace
}  // namespace periscope::testing
