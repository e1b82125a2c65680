#include <Eigen/Core>
#include <bit>
#include <boost/random/mersenne_twister.hpp>
#include <cmath>

#include "sim/numerics/rounding.h"
#include "sim/numerics/stored_bits.h"
#include "tests/numerics/formats.h"
#include "tests/support/doctest.h"

/// Rounding to FP16 and BF16 against Eigen's half and bfloat16, to the FP8 formats against the whole table of their
/// values; all bit patterns, floats at random and next to ties, subnormals, and doubles, which must not be rounded to
/// float on the way.
namespace periscope::testing {
namespace {

template <class Stored>
double eigen_rounded(float x) {
  return static_cast<double>(static_cast<float>(Stored(x)));
}

template <class Stored>
void check_all_patterns(std::string_view name) {
  const Rounding round(format_called(name));
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto value = Eigen::numext::bit_cast<Stored>(static_cast<std::uint16_t>(bits));
    const double number = static_cast<double>(static_cast<float>(value));
    wrong += !same(round(number), number);
  }
  CHECK(wrong == 0);
}

TEST_CASE("every bit pattern of Eigen's half and bfloat16 is a number of the format") {
  check_all_patterns<Eigen::half>("fp16");
  check_all_patterns<Eigen::bfloat16>("bf16");
}

template <class Stored>
void check_floats(std::string_view name) {
  INFO(name);
  const NumberFormat& format = format_called(name);
  const Rounding round(format);
  boost::random::mt19937 engine(7);
  const auto dropped = static_cast<std::uint32_t>(24 - format.precision);
  int wrong = 0;
  for (int i = 0; i < 4'000'000; ++i) {
    std::uint32_t bits = engine();
    const std::uint32_t kind = engine() % 4;
    // A quarter are ties of normal numbers, a quarter are next to them, a quarter have few bits, as numbers and ties of
    // the subnormal ones.
    if (kind == 0) bits = (bits >> dropped << dropped) | 1U << (dropped - 1);
    if (kind == 1) bits = ((bits >> dropped << dropped) | 1U << (dropped - 1)) + engine() % 3 - 1;
    if (kind == 2) bits &= 0xffffffffU << engine() % 23;
    const auto x = std::bit_cast<float>(bits);
    wrong += !same(round(x), eigen_rounded<Stored>(x));
  }
  CHECK(wrong == 0);
}

TEST_CASE("floats round as in Eigen's half and bfloat16") {
  check_floats<Eigen::half>("fp16");
  check_floats<Eigen::bfloat16>("bf16");
}

TEST_CASE("a double is rounded once: by way of float it would end on the other side of a tie") {
  // 1 + 2⁻¹¹ is the tie between 1 and the next FP16 number. A little above it, float forgets the little, and the tie
  // goes to the even neighbour.
  const double above = 1.0 + 0x1p-11 + 0x1p-40;
  CHECK(Rounding(format_called("fp16"))(above) == 1.0 + 0x1p-10);
  CHECK(Rounding(format_called("fp16"))(static_cast<double>(static_cast<float>(above))) == 1.0);
  CHECK(Rounding(format_called("bf16"))(1.0 + 0x1p-8 + 0x1p-40) == 1.0 + 0x1p-7);
  CHECK(Rounding(format_called("fp8_e4m3"))(1.0 + 0x1p-4 + 0x1p-40) == 1.0 + 0x1p-3);
}

/// The nearest of all finite values of an 8-bit format, of two the one with even bits; what lies half a step or more
/// beyond the largest is left out.
template <class Bits>
double nearest_of_all(double x) {
  double best = 0.0;
  double distance = HUGE_VAL;
  for (unsigned bits = 0; bits < 128; ++bits) {
    const double value = Bits::decode(static_cast<typename Bits::Stored>(bits));
    if (!std::isfinite(value)) continue;
    const double apart = std::abs(std::abs(x) - value);
    if (apart < distance || (apart == distance && bits % 2 == 0)) {
      best = value;
      distance = apart;
    }
  }
  return std::copysign(best, x);
}

template <class Bits>
void check_table(std::string_view name) {
  INFO(name);
  const NumberFormat& format = format_called(name);
  const Rounding round(format);
  const Rounding saturating(format, Rounding::Overflow::saturate);
  boost::random::mt19937_64 engine(11);
  int wrong = 0;
  for (int i = 0; i < 200'000; ++i) {
    // From far below the smallest subnormal to the largest number.
    const double magnitude = std::exp2(static_cast<double>(engine() % (1U << 20U)) / (1U << 20U) * 40.0 - 24.0);
    const double x = (i % 2 == 0 ? 1.0 : -1.0) * std::fmin(magnitude, format.largest);
    wrong += !same(round(x), nearest_of_all<Bits>(x)) + !same(saturating(x), nearest_of_all<Bits>(x));
  }
  CHECK(wrong == 0);
  for (unsigned bits = 0; bits < 256; ++bits) {
    const double value = Bits::decode(static_cast<typename Bits::Stored>(bits));
    CHECK(same(round(value), value));
  }
}

TEST_CASE("FP8: the nearest of all values, ties to even") {
  check_table<F8E4m3>("fp8_e4m3");
  check_table<F8E5m2>("fp8_e5m2");
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

}  // namespace
}  // namespace periscope::testing
