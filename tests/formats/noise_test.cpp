#include <cmath>

#include "experiments/studies/formats/format_pass.h"
#include "sim/measure/running_moments.h"
#include "sim/model/parameters.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"

/// Predicted noise of the stream (T27) against measured noise.
namespace periscope::testing {
namespace {

using formats::FormatsConfig;
using formats::Measure;
using formats::Part;
using formats::SeedReading;

FormatsConfig wide_config(std::string_view placement, const std::vector<std::string>& format) {
  FormatsConfig config = small_config(placement, format);
  config.base.model.layers = 4;
  config.base.model.width = 128;
  config.base.model.head_dim = 64;
  config.base.model.mlp_width = 256;
  config.base.model.vocab = 128;
  config.base.input.tokens = 16;
  return config;
}

/// Measured minus predicted SQNR of the stream, in dB, over seeds: at one depth.
RunningMoments off_at(const std::vector<SeedReading>& readings, std::size_t format, int depth) {
  RunningMoments off;
  for (const SeedReading& reading : readings) {
    const formats::PassReading& pass = reading[0][format + 1];
    off.add(number_of(pass, {Pass::forward, Signal::x_out}, Measure::sqnr, depth - 1) -
            pass.predicted[static_cast<std::size_t>(depth)]);
  }
  return off;
}

TEST_CASE("T27: the noise of the stream follows from the pass in f64; where it does not, a part is missing") {
  for (const std::string placement : {"pre", "peri", "post", "b-only", "lns"}) {
    FormatsConfig config = wide_config(placement, {"bf16", "fp16", "fp8_e4m3", "int8"});
    config.rest = "fp16";
    std::vector<SeedReading> readings;
    for (std::uint64_t seed = 0; seed < 8; ++seed) readings.push_back(reading_of(config, seed));
    for (std::size_t f = 0; f < config.format.size(); ++f) {
      // Where the loss reads the stream the gradient is isotropic. In so few layers an identity path leaves it nearly
      // so.
      const bool identity = placement == "pre" || placement == "peri";
      for (int depth = identity ? 1 : config.base.model.sublayers(); depth <= config.base.model.sublayers(); ++depth) {
        const RunningMoments off = off_at(readings, f, depth);
        INFO(placement, " ", config.format[f], " at ", depth, ": ", off.mean(), " ± ", off.standard_error());
        // 8 degrees of freedom; and 0.4 dB, a tenth, for second order and for 16 tokens' one gradient.
        CHECK(std::abs(off.mean()) < 4.0 * off.standard_error() + 0.4);
        CHECK(std::abs(off.mean()) < 1.5);
      }
    }
  }
}

TEST_CASE("T27: stochastic rounding has twice the noise, of signals as of matrices, predicted and measured") {
  // Part by part, so that the noise of one does not hide what is wrong with another.
  struct Case {
    std::string format;
    std::string part;
  };
  for (const Case& c :
       {Case{"bf16", "stream"}, Case{"bf16", "modules"}, Case{"int8", "inputs"}, Case{"int8", "weights"}}) {
    FormatsConfig config = wide_config("pre", {c.format});
    config.covers = {c.part};
    config.rest = "fp32";
    RunningMoments fall;
    std::vector<SeedReading> readings;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      config.stochastic = false;
      const double nearest = reading_of(config, seed)[0][1].predicted.back();
      config.stochastic = true;
      readings.push_back(reading_of(config, seed));
      fall.add(nearest - readings.back()[0][1].predicted.back());
    }
    INFO(c.format, " ", c.part, ": predicted ", fall.mean(), " ± ", fall.standard_error(),
         " below rounding to nearest");
    // Errors of single entries scatter by 0.9 of their mean to nearest and by 0.45 stochastically. A tensor has 2048,
    // of which the weights g² of Gaussian gradients leave a third and the binades of floating formats about as much of
    // that: 8 tensors and 8 seeds have the mean to 1 %, 0.04 dB. Of matrices, the law is exactly twice as large but for
    // the few numbers below one step.
    CHECK(std::abs(fall.mean() - 10.0 * std::log10(2.0)) < 0.16);
    const RunningMoments off = off_at(readings, 0, config.base.model.sublayers());
    INFO("measured ", off.mean(), " ± ", off.standard_error(), " above the prediction");
    // As above for rounding to nearest.
    CHECK(std::abs(off.mean()) < 4.0 * off.standard_error() + 0.4);
    CHECK(std::abs(off.mean()) < 1.5);
  }
}

TEST_CASE("T27: without a scale, every matrix has the noise of its own standard deviation") {
  // DeepNorm draws values and outputs smaller: below E4M3's normal numbers, where the relative noise is larger.
  FormatsConfig config = wide_config("deepnorm", {"fp8_e4m3"});
  config.scale = ScaleOver::nothing;
  config.covers = {"weights"};
  config.rest = "fp32";
  config.base.init.scheme = InitScheme::normal;
  config.base.init.std = 0.02;
  std::vector<SeedReading> readings;
  for (std::uint64_t seed = 0; seed < 8; ++seed) readings.push_back(reading_of(config, seed));
  const RunningMoments off = off_at(readings, 0, config.base.model.sublayers());
  INFO(off.mean(), " ± ", off.standard_error());
  CHECK(std::abs(off.mean()) < 4.0 * off.standard_error() + 0.4);
  CHECK(std::abs(off.mean()) < 1.5);
}

}  // namespace
}  // namespace periscope::testing
