#include <cmath>

#include "experiments/engine/run/ladder.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/studies/widths/convergence.h"
#include "experiments/studies/widths/ladder.h"
#include "sim/backends.h"
#include "tests/agreement/by_hand.h"
#include "tests/support/doctest.h"

/// Small runs of the ladder: the bias and noise that it fits, from the readings of every seed at every width; its
/// verdicts by hand.
namespace periscope::testing::width_runs {
namespace {

constexpr std::uint64_t first_seed = 11;

stacks::LadderConfig tiny() {
  stacks::LadderConfig config;
  config.base.model = {.layers = 1, .width = 8, .heads = 2, .kv_heads = 1, .head_dim = 4, .mlp_width = 12};
  config.base.init.scheme = InitScheme::lecun;
  config.base.init.qk_factor = 1.0;
  config.base.input.tokens = 3;
  config.inputs = {InputKind::gaussian};
  config.placements = {*find_placement("none")};
  config.run.seed = first_seed;
  config.run.dtype = DType::f64;
  return config;
}

StackSpec of_width(StackSpec spec, int width) {
  spec.model.heads = width / 4;
  spec.model.kv_heads = width / 8;
  spec.model.mlp_width = width * 3 / 2;
  spec.model.width = width;
  return spec;
}

/// Fresh seeds at every width.
config::RunOptions run_of_width(config::RunOptions run, int width) {
  run.seed = first_seed + static_cast<std::uint64_t>(width) * 1'000'003;
  return run;
}

std::vector<Profile> read(const config::Config& config, int width, int count) {
  std::vector<Profile> all;
  stacks::Progress progress;
  (void)stacks::measure_stack(*make_backend("cpu"), of_width(config.stacks().front(), width),
                              run_of_width(config.run, width), count, "", progress,
                              [&](const Reading& reading) { all.push_back(reading.profile); });
  return all;
}

}  // namespace

TEST_CASE("ladder: bias and noise of means over depth from readings at every width, with the prediction's own error") {
  stacks::LadderConfig config = tiny();
  config.widths = {8, 16, 24, 40};
  config.width_seeds = 16;
  config.theory.tolerance = 0.2;
  stacks::Progress progress;
  const ladder::ConvergenceResult result =
      ladder::convergence_of(stacks::run_ladder(config, progress), config.agreement.familywise_error);
  REQUIRE(result.fits.size() == 2);
  const theory::Prediction p = theory::predict(of_width(config.stacks().front(), 40 * 1024), {},
                                               {.tolerance = 0.2, .most_samples = 1 << 14, .seed = first_seed});
  for (const ladder::Convergence& c : result.fits) {
    CAPTURE(std::string(name_of(c.statistic)));
    CHECK(c.width == std::vector<double>{8, 16, 24, 40});
    const Curve& t = *p.profile.find(c.statistic, Signal::x_out);
    // Over depths 1 and 2: relative of second moments, absolute of cosines.
    const auto relative = [&](std::size_t i) { return c.statistic == Statistic::second_moment ? t.value[i] : 1.0; };
    double theory_error = 0.0;
    for (const std::size_t i : {1, 2}) theory_error += 0.5 * t.standard_error[i] / relative(i);
    CHECK(theory_error > 0.0);
    for (std::size_t w = 0; w < 4; ++w) {
      std::vector<double> per_seed;
      for (const Profile& reading : read(config, config.widths[w], 16)) {
        const std::vector<double>& m = reading.find(c.statistic, Signal::x_out)->value;
        double mean = 0.0;
        for (const std::size_t i : {1, 2}) mean += 0.5 * (m[i] - t.value[i]) / relative(i);
        per_seed.push_back(mean);
      }
      const double own = std::sqrt(variance_of(per_seed)) / 4.0;
      CHECK_MESSAGE(near(c.bias[w], mean_of(per_seed)), "bias");
      CHECK_MESSAGE(near(c.prediction_error[w], theory_error), "prediction_error");
      CHECK_MESSAGE(near(c.bias_error[w], std::sqrt(own * own + theory_error * theory_error)), "bias_stderr");
      if (w < 3) continue;
      // The widest stack's noise: the spread of single seeds, and of means of two.
      std::vector<double> pairs;
      for (std::size_t i = 0; i < 16; i += 2) pairs.push_back(0.5 * (per_seed[i] + per_seed[i + 1]));
      REQUIRE(c.seeds == std::vector<double>{1, 2});
      CHECK_MESSAGE(near(c.noise[0], std::sqrt(variance_of(per_seed))), "noise of 1");
      CHECK_MESSAGE(near(c.noise[1], std::sqrt(variance_of(pairs))), "noise of 2");
      CHECK_MESSAGE(near(c.noise_error[0], std::sqrt(variance_of(per_seed)) / std::sqrt(30.0)), "noise_stderr of 1");
      CHECK_MESSAGE(near(c.noise_error[1], std::sqrt(variance_of(pairs)) / std::sqrt(14.0)), "noise_stderr of 2");
    }
  }
}

TEST_CASE("ladder: excess, limit and power of a quantity, by hand") {
  // m∞ + b/D + c/D² at four widths without a lack of fit, and a prediction with its own error.
  stacks::LadderQuantity q{.test = {.predicted = {1.7, 0.015}, .tolerated_bias = 0.07, .scale = 1.7, .replicates = 8}};
  for (const int width : {32, 64, 96, 128}) q.measured.push_back({2.0 + 3.0 / width, 0.01});
  stacks::LadderResult result{.stacks = {{.spec = {}, .refusal = {}, .quantities = {q, q}}},
                              .widths = {32, 64, 96, 128}};
  config::AgreementOptions options;
  options.power_limits.second_moment = 10.0;
  stacks::judge_ladder(result, 64, options);
  const stacks::LadderQuantity& judged = result.stacks[0].quantities[0];
  const judge::WidthFit fit = judge::fit_width(result.widths, q.measured, 64, 0.007);
  CHECK(judged.fit.limit.error == fit.limit.error);  // no error of a point counts for less than a tenth of rounding's
  const double error = std::sqrt(fit.limit.error * fit.limit.error + 0.015 * 0.015);
  const double degrees = degrees_by_hand(fit.limit.error, fit.degrees, 0.015, 7.0);
  const double level = 1.0 - std::sqrt(1.0 - 0.01);  // two tests
  CHECK_MESSAGE(judged.test.excess() == doctest::Approx((std::abs(fit.limit.value - 1.7) - 0.07) / error), "excess");
  CHECK_MESSAGE(judged.test.critical == doctest::Approx(critical_by_hand(degrees, level)), "critical");
  CHECK_MESSAGE(judged.test.detectable == doctest::Approx(detectable_by_hand(0.07, error, degrees, 1.7, level)),
                "power");
}

TEST_CASE("ladder: the reason of an inconclusive stack is that of the quantity with the least power") {
  stacks::LadderResult result{.stacks = {}, .widths = {32, 64, 96, 128}};
  std::vector<stacks::LadderQuantity>& quantities = result.stacks.emplace_back().quantities;
  for (int i = 0; i < 3; ++i) {
    stacks::LadderQuantity& q = quantities.emplace_back();
    q.test = {.index = i + 1,
              .measured = {3.0 - i, 1.0},
              .limit = 0.1,
              .verdict = i == 0 ? judge::Verdict::agrees : judge::Verdict::inconclusive,
              .critical = 4.0,
              .detectable = i == 1 ? 0.9 : 0.1 * (i + 1),
              .reason = i == 0   ? ""
                        : i == 1 ? "too weak"
                                 : "weak"};
  }
  const std::string text = ladder::table(result, {});
  CHECK_MESSAGE(text.find("          second_moment x_out[2] too weak") != std::string::npos, text);
}

}  // namespace periscope::testing::width_runs
