#include "theory/formats/rounding_noise.h"

#include <algorithm>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <boost/random/uniform_01.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "sim/numerics/rounding.h"
#include "tests/support/doctest.h"
#include "tests/support/significance.h"
#include "theory/kernels/kernel.h"

/// T26 against roundings of drawn numbers.
namespace periscope::testing {
namespace {

/// E(x̂ − x)²/(s z)² of x = s z over the phase of log₂ s, exactly, for every z (T26): over the cells
/// [a, b] of one binade with the number g in each, 1 − Σ g²(1/a² − 1/b²)/(2 ln 2).
double noise_over_phases(int precision) {
  const double spacing = std::ldexp(1.0, 1 - precision);
  double kept = 0.0;
  for (double g = 1.0; g < 2.0; g += spacing) {
    const double a = g - (g == 1.0 ? 0.25 : 0.5) * spacing;
    const double b = g + 0.5 * spacing;
    kept += g * g * (1.0 / (a * a) - 1.0 / (b * b));
  }
  return 1.0 - kept / (2.0 * std::numbers::ln2);
}

/// To one of the two neighbours by an independent word.
double stochastic(const Rounding& round, double x, boost::random::mt19937_64& engine) {
  return round.stochastic(x, static_cast<std::uint32_t>(engine() >> 32U));
}

TEST_CASE(
    "T26: the noise of one rounding of Gaussian numbers, subnormal ones included, to nearest and stochastically") {
  boost::random::mt19937_64 engine(1);
  boost::random::normal_distribution<double> normal;
  for (const NumberFormat& format : number_formats) {
    // 0.004 is in the middle of E4M3's subnormal numbers, the smaller ones are about its smallest number, 0.00195.
    for (const double sigma : {1.0, 1.4, 0.02, 0.004, 0.0015, 0.0006, 2e-4, 1e-4}) {
      INFO(format.name, " at ", sigma);
      const Rounding round(format);
      // In units of the normal numbers' noise, so that every format has numbers near 1.
      const double unit = std::ldexp(1.0, -2 * format.precision);
      std::vector<double> noise;
      std::vector<double> stochastic_noise;
      for (int i = 0; i < 200'000; ++i) {
        const double x = sigma * normal(engine);
        noise.push_back(std::pow((round(x) - x) / sigma, 2.0) / unit);
        stochastic_noise.push_back(std::pow((stochastic(round, x, engine) - x) / sigma, 2.0) / unit);
      }
      check_consistent(std::string(format.name), estimate(noise), theory::floating_noise(format, sigma) / unit);
      check_consistent(std::string(format.name), estimate(stochastic_noise),
                       theory::floating_noise(format, sigma, true) / unit);
    }
  }
}

TEST_CASE(
    "T26: numbers below half a step all become zero to nearest, and make noise beyond themselves stochastically") {
  const NumberFormat& e4m3 = number_formats.back();
  for (const double sigma : {1e-5, 1e-8, 1e-30}) {
    CHECK(theory::floating_noise(e4m3, sigma) == 1.0);
    // E|x|(Δ − |x|) = σ(√(2/π)Δ − σ) for the step Δ = 2⁻⁹: nothing is twice anything.
    const double beyond = std::sqrt(2.0 / std::numbers::pi) * 0x1p-9 / sigma - 1.0;
    CHECK(theory::floating_noise(e4m3, sigma, true) / beyond == doctest::Approx(1.0).epsilon(1e-12));
  }
  // Unscaled weights of σ = 2e-4: −8.3 dB, where twice the noise of rounding to nearest would be −3.0.
  CHECK(-10.0 * std::log10(theory::floating_noise(e4m3, 2e-4, true)) == doctest::Approx(-8.3).epsilon(0.01));
  CHECK(-10.0 * std::log10(2.0 * theory::floating_noise(e4m3, 2e-4)) == doctest::Approx(-3.0).epsilon(0.01));
  // The series and what stands for it below a tenth of a step meet there: to nearest one number in 1.7 million is
  // beyond half a step.
  const double tenth = 0.1 * 0x1p-9;
  for (const bool mode : {false, true}) {
    const double below = theory::floating_noise(e4m3, tenth * (1.0 - 1e-9), mode);
    CHECK(theory::floating_noise(e4m3, tenth * (1.0 + 1e-9), mode) / below == doctest::Approx(1.0).epsilon(1e-5));
  }
}

TEST_CASE("T26: 0.1803·4^−p over phases, 6.02p + 7.44 dB") {
  for (const NumberFormat& format : number_formats) {
    INFO(format.name);
    for (const bool mode : {false, true}) {
      // 64 standard deviations over one binade: the mean of a periodic function that is smooth. From 2^8 on numbers
      // below E4M3's smallest normal one, 2^−6, are so few that 4^e·P adds less than 1e-12.
      double mean = 0.0;
      for (int i = 0; i < 64; ++i) mean += theory::floating_noise(format, std::exp2(8.0 + i / 64.0), mode) / 64.0;
      const double expected = (mode ? 2.0 : 1.0) * 0.75 / std::log(4.0) / 3.0;
      CHECK(mean * std::ldexp(1.0, 2 * format.precision) / expected == doctest::Approx(1.0).epsilon(1e-9));
    }
  }
  const auto sqnr = [](int precision) {
    return 20.0 * std::log10(2.0) * precision - 10.0 * std::log10(0.25 / std::log(4.0));
  };
  CHECK(sqnr(0) == doctest::Approx(7.44).epsilon(1e-3));
  CHECK(sqnr(8) == doctest::Approx(55.6).epsilon(1e-3));
  // The error is not quite uniform in a cell: by how much the law is off, a share of about 4^−p, is known exactly.
  for (const NumberFormat& format : number_formats) {
    if (format.precision > 8) continue;  // of FP16 it is what a thousand cells leave of 1
    const double law = 0.25 / std::log(4.0) * std::ldexp(1.0, -2 * format.precision);
    const double off = (1.0 - noise_over_phases(format.precision) / law) * std::ldexp(1.0, 2 * format.precision);
    CHECK(off > 0.84);
    CHECK(off < 0.88);
  }
}

TEST_CASE("T26: the same for every law of the signal, averaged over the phase of its scale") {
  boost::random::mt19937_64 engine(3);
  boost::random::normal_distribution<double> normal;
  const auto uniform = [&] { return static_cast<double>(engine() >> 11U) * 0x1p-53; };
  const auto gamma = [&](double degrees) {  // χ² over its degrees
    double sum = 0.0;
    for (int i = 0; i < static_cast<int>(degrees); ++i) sum += std::pow(normal(engine), 2.0);
    return sum / degrees;
  };
  const std::vector<std::pair<std::string, std::function<double()>>> laws{
      {"Gaussian", [&] { return normal(engine); }},
      {"uniform", [&] { return 2.0 * uniform() - 1.0; }},
      {"Laplace", [&] { return (uniform() < 0.5 ? 1.0 : -1.0) * std::log(1.0 - uniform()); }},
      {"Student's t, 5 degrees", [&] { return normal(engine) / std::sqrt(gamma(5.0)); }},
      {"lognormal", [&] { return std::exp(normal(engine)); }}};
  constexpr int count = 200'000;
  for (const auto& named : laws) {
    const std::string& name = named.first;  // no structured binding: INFO captures it
    const std::function<double()>& law = named.second;
    for (const NumberFormat& format : number_formats) {
      if (format.precision > 11) continue;  // the exact share of binary32 is what 2^23 cells leave of 1
      INFO(name, " in ", format.name);
      const Rounding round(format);
      const double per_signal = noise_over_phases(format.precision);
      std::vector<double> difference;
      std::vector<double> gain;
      for (int i = 0; i < count; ++i) {
        const double z = law();
        // One scale in each of `count` pieces of a binade; far above E4M3's smallest normal number, 2^−6, but with
        // room for the largest z below 448.
        const double s = std::exp2((i + uniform()) / count);
        const double x = s * z;
        const double rounded = std::abs(x) < 400.0 ? round(x) : 0x1p20 * round(x * 0x1p-20);
        difference.push_back((std::pow((rounded - x) / s, 2.0) - per_signal * z * z) / per_signal);
        gain.push_back(rounded * (rounded - x) / (s * s));
      }
      // Subnormal numbers of E4M3 have at most η²/4 each instead of the law's share of x²; there are few.
      check_consistent(name, estimate(difference), 0.0);
      // E x̂(x̂ − x) = 0: rounding shortens by as much as its noise.
      check_consistent(name, estimate(gain), 0.0);
    }
  }
}

TEST_CASE("T26: E[x̂(x̂ − x)] is exactly 0 over phases: interior cells +3k²/(32 ln 2), the power of two as much less") {
  for (const NumberFormat& format : number_formats) {
    if (format.precision > 8) continue;
    INFO(format.name);
    const Rounding round(format);
    // x = 2^φ over one binade, φ in the middle of 2^20 pieces. x̂(x̂ − x)/x² jumps by at most k at the 2^(p−1) edges of
    // cells, each of which is misplaced by at most half a piece: in all by less than 2^−20.
    constexpr int pieces = 1 << 20;
    const double spacing = format.spacing_at_1();
    double interior = 0.0;
    double power = 0.0;
    for (int i = 0; i < pieces; ++i) {
      const double x = std::exp2((i + 0.5) / pieces);
      const double rounded = round(x);
      const double mantissa = std::ldexp(rounded, -std::ilogb(rounded));
      (mantissa == 1.0 ? power : interior) += rounded * (rounded - x) / (x * x) / pieces;
    }
    CHECK(std::abs(interior + power) < 0x1p-20);
    const double leading = 3.0 / (32.0 * std::numbers::ln2) * spacing * spacing;
    // The next order is a share k of it.
    CHECK(std::abs(interior - leading) < 2.0 * spacing * leading + 0x1p-20);
    CHECK(std::abs(power + leading) < 2.0 * spacing * leading + 0x1p-20);
  }
}

TEST_CASE("whole numbers: the noise of one rounding of groups of Gaussian numbers") {
  boost::random::mt19937_64 engine(2);
  boost::random::normal_distribution<double> normal;
  boost::random::uniform_01<double> uniform;
  struct Case {
    int largest, group, groups;
  };
  for (const Case& c : {Case{127, 32, 20'000}, Case{127, 512, 2000}, Case{7, 256, 3000}}) {
    INFO(c.largest, " over ", c.group);
    std::vector<double> noise;
    std::vector<double> stochastic_noise;
    for (int g = 0; g < c.groups; ++g) {
      std::vector<double> x(static_cast<std::size_t>(c.group));
      double most = 0.0;
      for (double& v : x) {
        v = normal(engine);
        most = std::max(most, std::abs(v));
      }
      const double step = most / c.largest;
      double sum = 0.0;
      double stochastic_sum = 0.0;
      for (const double v : x) {
        sum += std::pow(std::remainder(v, step), 2.0);
        if (std::abs(v) == most) continue;  // the largest is a number of the format
        const double below = v - std::floor(v / step) * step;
        stochastic_sum += std::pow(uniform(engine) * step < below ? step - below : below, 2.0);
      }
      noise.push_back(sum / c.group);
      stochastic_noise.push_back(stochastic_sum / c.group);
    }
    const auto group = static_cast<std::size_t>(c.group);
    check_consistent("to nearest", estimate(noise), theory::integer_noise(c.largest, group));
    check_consistent("stochastic", estimate(stochastic_noise), theory::integer_noise(c.largest, group, true));
  }
}

TEST_CASE("T18's place of the maximum gives the same, to a few percent") {
  for (const double group : {256.0, 1024.0}) {
    const double a = theory::typical_maximum(2.0 * group, 1.0);
    // As a ratio: doctest's epsilon is a share of 1 where numbers are smaller.
    CHECK(theory::integer_noise(127, static_cast<std::size_t>(group)) * 12.0 * 127.0 * 127.0 / (a * a) ==
          doctest::Approx(1.0).epsilon(0.075));
  }
}

}  // namespace
}  // namespace periscope::testing
