#include "sim/numerics/rounding.h"

#include <algorithm>
#include <boost/random/mersenne_twister.hpp>
#include <vector>

#include "tests/numerics/formats.h"
#include "tests/support/doctest.h"

/// Rounding to a number format against the format's own definition: every value, decoded from its bits, and every
/// midpoint of two neighbours.
namespace periscope::testing {
namespace {

/// All finite values that are not negative, in order: what the bits 0, 1, 2 … mean.
std::vector<double> values_of(const NumberFormat& format) {
  const int mantissa_bits = format.precision - 1;
  const int mantissas = 1 << mantissa_bits;
  std::vector<double> values;
  for (int bits = 0;; ++bits) {
    const int exponent = bits / mantissas;
    const int mantissa = bits % mantissas;
    const double value = exponent == 0
                             ? std::ldexp(mantissa, format.least_exponent - mantissa_bits)
                             : std::ldexp(mantissas + mantissa, format.least_exponent + exponent - 1 - mantissa_bits);
    if (value > format.largest) return values;
    values.push_back(value);
  }
}

TEST_CASE("every value of a format and every midpoint, both signs, and their neighbours in double") {
  const std::pair<const char*, std::size_t> formats[] = {
      {"fp8_e4m3", 127}, {"fp8_e5m2", 124}, {"fp16", 0x7c00}, {"bf16", 0x7f80}};
  for (const auto& entry : formats) {
    const char* const name = entry.first;
    const std::size_t count = entry.second;
    INFO(name);
    const NumberFormat& format = format_called(name);
    const Rounding round(format);
    const std::vector<double> values = values_of(format);
    REQUIRE(values.size() == count);
    CHECK(values.back() == format.largest);
    CHECK(values[1] == format.smallest_subnormal());
    int wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double here = values[i];
      wrong += !same(round(here), here) + !same(round(-here), -here);
      if (i + 1 == values.size()) continue;
      const double next = values[i + 1];
      const double middle = here + (next - here) / 2.0;
      const double even = i % 2 == 0 ? here : next;
      for (const double sign : {1.0, -1.0}) {
        wrong += !same(round(sign * middle), sign * even);
        wrong += !same(round(sign * std::nextafter(middle, 0.0)), sign * here);
        wrong += !same(round(sign * std::nextafter(middle, HUGE_VAL)), sign * next);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("beyond the largest number: infinity, in E4M3 not a number") {
  for (const NumberFormat& format : number_formats) {
    INFO(format.name);
    const Rounding round(format);
    const double unit = format.largest - std::ldexp(std::nextafter(std::ldexp(format.largest, -1), 0.0), 1);
    CHECK(unit > 0.0);
    const int exponent = std::ilogb(format.largest);
    const double half = std::ldexp(1.0, exponent - format.precision);  // of the distance to the next number
    const bool without_infinity = format.name == "fp8_e4m3";
    const auto overflows = [&](double x) {
      return without_infinity ? std::isnan(round(x)) && std::isnan(round(-x))
                              : same(round(x), HUGE_VAL) && same(round(-x), -HUGE_VAL);
    };
    // The largest number of E4M3 is even, as its last pattern is taken: the midpoint stays. Elsewhere it is odd.
    CHECK(round(std::nextafter(format.largest + half, 0.0)) == format.largest);
    CHECK(overflows(format.largest + half) == !without_infinity);
    CHECK(overflows(std::nextafter(format.largest + half, HUGE_VAL)));
    for (const double x : {2.0 * format.largest, 1e300, 1.7e308, HUGE_VAL}) CHECK(overflows(x));
    CHECK(std::isnan(round(std::nan(""))));
    CHECK(Rounding(format, Rounding::Overflow::infinite)(1e300) == HUGE_VAL);
    CHECK(same(round(0.0), 0.0));
    CHECK(same(round(-0.0), -0.0));
    CHECK(same(round(-1e-320), -0.0));
  }
  CHECK(Rounding(fp64)(1.7e308) == 1.7e308);
  CHECK(Rounding(fp64)(5e-324) == 5e-324);
}

TEST_CASE("saturating: what is beyond the largest number becomes it, what is not a number does not") {
  for (const NumberFormat& format : number_formats) {
    INFO(format.name);
    const Rounding round(format, Rounding::Overflow::saturate);
    for (const double x : {1.999 * format.largest, 2.0 * format.largest, 1e300, HUGE_VAL}) {
      CHECK(round(x) == format.largest);
      CHECK(round(-x) == -format.largest);
      CHECK(round.stochastic(x, 0xffffffffU) == format.largest);
    }
    CHECK(std::isnan(round(std::nan(""))));
    CHECK(std::isnan(round.stochastic(std::nan(""), 1)));
  }
}

/// Doubles of all magnitudes, many of them near numbers of few bits.
template <class Function>
void for_many_doubles(const Function& function) {
  boost::random::mt19937_64 engine(1);
  for (int i = 0; i < 2'000'000; ++i) {
    std::uint64_t bits = engine();
    const auto exponent = static_cast<std::uint64_t>(1023 - 160 + static_cast<int>(engine() % 320));
    bits = (bits & 0x800f'ffff'ffff'ffffULL) | (exponent << 52U);
    if (engine() % 2 == 0) bits &= ~((std::uint64_t{1} << (engine() % 52U)) - 1);
    function(std::bit_cast<double>(bits));
  }
}

TEST_CASE("fp32 rounds as the processor does") {
  const Rounding round(format_called("fp32"));
  int wrong = 0;
  for_many_doubles([&](double x) { wrong += !same(round(x), static_cast<double>(static_cast<float>(x))); });
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace periscope::testing
