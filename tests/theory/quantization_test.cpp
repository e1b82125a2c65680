#include "theory/formats/rounding_noise.h"

#include <algorithm>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "sim/numerics/rounding.h"
#include "tests/support/doctest.h"
#include "tests/support/significance.h"

namespace periscope::testing {
namespace {

constexpr const NumberFormat& e4m3 = number_formats.back();

TEST_CASE("rounding noise of Gaussian numbers, even subnormal ones, agrees with sampling in both modes (T26)") {
  boost::random::mt19937_64 engine(1);
  boost::random::normal_distribution<double> normal;
  for (const NumberFormat& format : number_formats) {
    // 0.004 is in the middle of E4M3's subnormal numbers; its smallest number is 0.00195.
    for (const double sigma : {1.0, 1.4, 0.02, 0.004, 0.0015, 6e-4, 1e-4}) {
      INFO(format.name, " at ", sigma);
      const Rounding round(format);
      // The unit is the noise of normal numbers, so that values are about 1 for every format.
      const double unit = std::ldexp(1.0, -2 * format.precision);
      std::vector<double> nearest, stochastic;
      for (int i = 0; i < 100'000; ++i) {
        const double x = sigma * normal(engine);
        const double drawn = round.stochastic(x, static_cast<std::uint32_t>(engine() >> 32U));
        nearest.push_back(std::pow((round(x) - x) / sigma, 2.0) / unit);
        stochastic.push_back(std::pow((drawn - x) / sigma, 2.0) / unit);
      }
      const std::string name(format.name);
      check_consistent(name, estimate(nearest), theory::floating_noise(format, sigma) / unit);
      check_consistent(name, estimate(stochastic), theory::floating_noise(format, sigma, true) / unit);
    }
  }
}

TEST_CASE("numbers below half a step round to zero; stochastic rounding noise exceeds their size (T26)") {
  for (const double sigma : {1e-5, 1e-8, 1e-30}) {
    CHECK(theory::floating_noise(e4m3, sigma) == 1.0);
    // E|x|(Δ − |x|) = σ(√(2/π)Δ − σ) for the step Δ = 2⁻⁹.
    const double expected = std::sqrt(2.0 / std::numbers::pi) * 0x1p-9 / sigma - 1.0;
    CHECK(theory::floating_noise(e4m3, sigma, true) / expected == approx(1.0).epsilon(1e-12));
  }
  // The series agrees with the limit used below a tenth of a step, where one number in 1.7 million exceeds half a step.
  for (const bool mode : {false, true}) {
    const double below = theory::floating_noise(e4m3, 0.1 * 0x1p-9 * (1.0 - 1e-9), mode);
    CHECK(theory::floating_noise(e4m3, 0.1 * 0x1p-9 * (1.0 + 1e-9), mode) / below == approx(1.0).epsilon(1e-5));
  }
}

TEST_CASE("averaged over the scale's phase, noise is 4^-p/(4 ln 4), and twice that if stochastic (T26)") {
  // Averages over 64 standard deviations in the binade from 2^8, where E4M3's subnormals (below 2^−6) add under 1e-12.
  for (const NumberFormat& format : number_formats) {
    for (const bool mode : {false, true}) {
      INFO(format.name, mode);
      double mean = 0.0;
      for (int i = 0; i < 64; ++i) mean += theory::floating_noise(format, std::exp2(8.0 + i / 64.0), mode) / 64.0;
      const double expected = (mode ? 2.0 : 1.0) * 0.25 / std::log(4.0);
      CHECK(mean * std::ldexp(1.0, 2 * format.precision) / expected == approx(1.0).epsilon(1e-9));
    }
  }
}

TEST_CASE("integer formats: rounding noise of groups of Gaussian numbers agrees with sampling") {
  boost::random::mt19937_64 engine(2);
  boost::random::normal_distribution<double> normal;
  struct Case {
    int largest, group, groups;
  };
  for (const Case& c : {Case{127, 32, 20'000}, Case{127, 512, 2000}, Case{7, 256, 3000}}) {
    INFO(c.largest, " over ", c.group);
    std::vector<double> nearest, stochastic;
    for (int g = 0; g < c.groups; ++g) {
      std::vector<double> x(static_cast<std::size_t>(c.group));
      for (double& v : x) v = std::abs(normal(engine));
      const double most = std::ranges::max(x);
      const double step = most / c.largest;
      double sum = 0.0, drawn = 0.0;
      for (const double v : x) {
        sum += std::pow(std::remainder(v, step), 2.0);
        if (v == most) continue;  // the largest value is exact
        const double below = v - std::floor(v / step) * step;
        drawn += below * (step - below);  // mean squared error of rounding down or up
      }
      nearest.push_back(sum / c.group);
      stochastic.push_back(drawn / c.group);
    }
    const auto group = static_cast<std::size_t>(c.group);
    check_consistent("to nearest", estimate(nearest), theory::integer_noise(c.largest, group));
    check_consistent("stochastic", estimate(stochastic), theory::integer_noise(c.largest, group, true));
  }
}

}  // namespace
}  // namespace periscope::testing
