#include "theory/formats/rounding_noise.h"

#include <algorithm>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "sim/backends.h"
#include "sim/emulated/quantize.h"
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

TEST_CASE("noise of quantization with scales agrees with drawn tensors (T26)") {
  struct Case {
    const char* format;
    ScaleOver scale;
    int block, rows, cols;
    double sigma = 1.0;  ///< changes the phase of scales that are powers of two
  };
  const auto ops = make_backend("cpu");
  for (const Case& c :
       {Case{"int8", ScaleOver::block, 32, 40, 64}, Case{"int8", ScaleOver::row, 32, 20, 512},
        Case{"int4", ScaleOver::row, 32, 20, 256}, Case{"int4", ScaleOver::tensor, 32, 40, 40},
        Case{"fp8_e4m3", ScaleOver::row, 32, 40, 64}, Case{"fp8_e5m2", ScaleOver::block, 5, 20, 70, 1.3},
        Case{"mxfp8_e4m3", {}, 32, 40, 64}, Case{"mxfp8_e5m2", {}, 32, 40, 64, 1.7}, Case{"mxfp4", {}, 32, 40, 64},
        Case{"mxfp4", {}, 8, 40, 64, 1.7}, Case{"nvfp4", {}, 16, 40, 64}, Case{"nvfp4", {}, 128, 20, 128, 0.02}}) {
    for (const bool stochastic : {false, true}) {
      INFO(c.format, " over ", c.block, " of ", c.cols, " stochastic ", stochastic);
      const Quantization q{
          .format = *find_tensor_format(c.format), .scale = c.scale, .stochastic = stochastic, .block = c.block};
      std::vector<double> noise;
      for (std::uint64_t seed = 0; seed < 100; ++seed) {
        const Tensor x = ops->normal(c.rows, c.cols, DType::f64, {seed, 0, Stream{3}}, c.sigma);
        double sum = 0.0;
        for (const double e : square_errors(x, q)) sum += e;
        noise.push_back(sum / (c.rows * c.cols * c.sigma * c.sigma));
      }
      const auto entries = static_cast<std::size_t>(c.rows * c.cols);
      const auto cols = static_cast<std::size_t>(c.cols);
      const std::size_t group = q.has_blocks()                 ? std::min<std::size_t>(cols, c.block)
                                : c.scale == ScaleOver::tensor ? entries
                                                               : cols;
      const double expected = theory::scaled_noise(q, c.sigma, group, entries);
      const Estimate measured = estimate(noise);
      // The quadrature over 256 quantiles of a step function of the largest entry has an error of at most 1/512 of the
      // steps, which double the noise; NVFP4's scale is taken at the median of the tensor's largest entry.
      CHECK(std::abs(measured.mean / expected - 1.0) < 4.0 * measured.standard_error / expected + 0.004);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
