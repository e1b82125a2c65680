#include "theory/quantization.h"

#include <algorithm>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <cmath>
#include <vector>

#include "sim/numerics/rounding.h"
#include "tests/support/doctest.h"
#include "tests/support/hypothesis.h"
#include "theory/laws.h"

/// T26 against roundings of drawn numbers.
namespace periscope::testing {
namespace {

TEST_CASE("floating formats: the noise of one rounding of Gaussian numbers, subnormal ones included") {
  boost::random::mt19937_64 engine(1);
  boost::random::normal_distribution<double> normal;
  for (const NumberFormat& format : number_formats) {
    // 0.004 is in the middle of E4M3's subnormal numbers, the smaller ones are about its smallest number, 0.00195.
    for (const double sigma : {1.0, 1.4, 0.02, 0.004, 0.0015, 0.0006, 1e-4}) {
      INFO(format.name, " at ", sigma);
      const Rounding round(format);
      std::vector<double> noise;
      for (int i = 0; i < 200'000; ++i) {
        const double x = sigma * normal(engine);
        noise.push_back(std::pow((round(x) - x) / sigma, 2.0) * std::ldexp(1.0, 2 * format.precision));
      }
      check_consistent(std::string(format.name), estimate(noise),
                       theory::floating_noise(format, sigma) * std::ldexp(1.0, 2 * format.precision));
    }
  }
}

TEST_CASE("floating formats: numbers that all become zero lose all of their signal") {
  for (const double sigma : {1e-5, 1e-8, 1e-30}) CHECK(theory::floating_noise(number_formats.back(), sigma) == 1.0);
}

TEST_CASE("floating formats: about 6.02p + 8.1 dB, whatever the size") {
  for (const NumberFormat& format : number_formats) {
    double mean = 0.0;
    for (int i = 0; i < 16; ++i) mean += theory::floating_noise(format, std::exp2(i / 16.0)) / 16.0;
    // E[4^e]/E[x²] of a mantissa that is uniform on the logarithm is 2 ln 2/3.
    const double expected = std::ldexp(2.0 * std::log(2.0) / 9.0, -2 * format.precision);
    CHECK(mean == doctest::Approx(expected).epsilon(0.02));
  }
}

TEST_CASE("whole numbers: the noise of one rounding of groups of Gaussian numbers") {
  boost::random::mt19937_64 engine(2);
  boost::random::normal_distribution<double> normal;
  struct Case {
    int largest, group, groups;
  };
  for (const Case& c : {Case{127, 32, 20'000}, Case{127, 512, 2000}, Case{7, 256, 3000}}) {
    INFO(c.largest, " over ", c.group);
    std::vector<double> noise;
    for (int g = 0; g < c.groups; ++g) {
      std::vector<double> x(static_cast<std::size_t>(c.group));
      double most = 0.0;
      for (double& v : x) {
        v = normal(engine);
        most = std::max(most, std::abs(v));
      }
      const double step = most / c.largest;
      double sum = 0.0;
      for (const double v : x) sum += std::pow(std::remainder(v, step), 2.0);
      noise.push_back(sum / c.group);
    }
    check_consistent("int", estimate(noise), theory::integer_noise(c.largest, static_cast<std::size_t>(c.group)));
  }
}

TEST_CASE("T18's place of the maximum gives the same, to a few percent") {
  for (const double group : {256.0, 1024.0}) {
    const double a = theory::typical_maximum(2.0 * group, 1.0);
    CHECK(theory::integer_noise(127, static_cast<std::size_t>(group)) ==
          doctest::Approx(a * a / (12.0 * 127.0 * 127.0)).epsilon(0.15));
  }
}

}  // namespace
}  // namespace periscope::testing
