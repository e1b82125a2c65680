#include <boost/random/mersenne_twister.hpp>
#include <cmath>
#include <vector>

#include "sim/numerics/rounding.h"
#include "tests/support/doctest.h"
#include "tests/support/significance.h"

/// Stochastic rounding: which numbers it gives, exactly with which probability, and that its mean is what was rounded.
namespace periscope::testing {
namespace {

/// The neighbours of |x| in a format: the numbers between which it stands.
struct Neighbours {
  double lower, upper;
};

Neighbours neighbours_of(const NumberFormat& format, double magnitude) {
  const double distance =
      std::fmax(std::ldexp(format.spacing_at_1(), std::ilogb(magnitude)), format.smallest_subnormal());
  const double lower = std::floor(magnitude / distance) * distance;
  return {lower, lower + distance};
}

/// Numbers of all sizes, the subnormal ones of the format among them.
std::vector<double> numbers_of(const NumberFormat& format, int count) {
  boost::random::mt19937_64 engine(3);
  std::vector<double> numbers;
  for (int i = 0; i < count; ++i) {
    const double share = static_cast<double>(engine() >> 11U) * 0x1p-53;
    const int span = 2 * format.precision + 20;
    const int exponent = format.least_exponent - format.precision - 2 + static_cast<int>(engine() % span);
    numbers.push_back((i % 2 == 0 ? 1.0 : -1.0) * std::ldexp(1.0 + share, exponent));
  }
  return numbers;
}

TEST_CASE("one of the two neighbours; the upper one exactly for the words below its share") {
  for (const NumberFormat& format : number_formats) {
    INFO(format.name);
    const Rounding round(format);
    int wrong = 0;
    for (const double x : numbers_of(format, 20'000)) {
      const auto [lower, upper] = neighbours_of(format, std::abs(x));
      if (upper > format.largest) continue;
      const double share = (std::abs(x) - lower) / (upper - lower);
      const double words = std::ceil(std::ldexp(share, 32));  // that round up
      const auto last = static_cast<std::uint32_t>(std::fmax(words - 1.0, 0.0));
      const auto first = static_cast<std::uint32_t>(std::fmin(words, 0x1p32 - 1.0));
      if (words > 0.0) wrong += round.stochastic(x, last) != std::copysign(upper, x);
      if (words < 0x1p32) wrong += round.stochastic(x, first) != std::copysign(lower, x);
      wrong += round.stochastic(std::copysign(lower, x), 0) != std::copysign(lower, x);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("the mean is what was rounded") {
  for (const NumberFormat& format : number_formats) {
    const Rounding round(format);
    boost::random::mt19937 engine(5);
    for (const double x : numbers_of(format, 8)) {
      const auto [lower, upper] = neighbours_of(format, std::abs(x));
      std::vector<double> samples;
      for (int i = 0; i < 20'000; ++i) {
        samples.push_back((std::abs(round.stochastic(x, engine())) - lower) / (upper - lower));
      }
      check_consistent(std::string(format.name), estimate(samples), (std::abs(x) - lower) / (upper - lower));
    }
  }
}

TEST_CASE("beyond the largest number the upper neighbour is an overflow") {
  const Rounding e5m2(*std::ranges::find(number_formats, "fp8_e5m2", &NumberFormat::name));
  const double middle = 57344.0 + 4096.0;
  CHECK(e5m2.stochastic(middle, 0x80000000U) == 57344.0);
  CHECK(e5m2.stochastic(middle, 0x7fffffffU) == HUGE_VAL);
  CHECK(e5m2.stochastic(-1e9, 0) == -HUGE_VAL);
  CHECK(std::isnan(Rounding(*std::ranges::find(number_formats, "fp8_e4m3", &NumberFormat::name)).stochastic(1e9, 0)));
}

}  // namespace
}  // namespace periscope::testing
