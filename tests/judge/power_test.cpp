#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/judge/stack_verdicts.h"
#include "tests/support/doctest.h"

/// Power of verdicts (T22): detectable errors and underpowered verdicts.
namespace periscope {
namespace {

constexpr std::size_t depths = 25;

/// Second moments of a stream: `seeds` rows of 1 + `offset` + `slope`·depth + noise of standard deviation `spread`.
struct Planted {
  Planted(double spread, double offset, int seeds = 16, double slope = 0.0) {
    std::mt19937 engine(7);
    std::normal_distribution<double> normal;
    judge::SeedRows rows;
    for (int s = 0; s < seeds; ++s) {
      Profile one;
      Curve& curve = one.curves[{Statistic::second_moment, Signal::x_out}];
      for (std::size_t i = 0; i < depths; ++i) {
        curve.value.push_back(1.0 + offset + slope * static_cast<double>(i) + spread * normal(engine));
      }
      rows.add(curve.value);
      measured.per_seed.push_back(one);
    }
    measured.profile.curves[{Statistic::second_moment, Signal::x_out}] = rows.curve();
    prediction.profile.curves[{Statistic::second_moment, Signal::x_out}] = {std::vector<double>(depths, 1.0),
                                                                            std::vector<double>(depths, 0.0)};
    prediction.finite_width.assign(depths, 0.0);
    prediction.replicates = 8;
    measured.seeds = seeds;
  }
  [[nodiscard]] judge::StackVerdict judged(const config::AgreementOptions& options = {}, bool contrasts = false) const {
    judge::Measurement compared = measured;
    if (!contrasts) compared.per_seed.clear();
    return judge::verdicts_of({{spec, compared, DType::f64, prediction}}, options).front();
  }

  StackSpec spec;
  judge::Measurement measured;
  theory::Prediction prediction;
};

judge::Test plain(double error, int seeds, double tolerated_bias = 0.0) {
  return {.measured = {2.0, error},
          .predicted = {2.0, 0.0},
          .tolerated_bias = tolerated_bias,
          .scale = 2.0,
          .seeds = seeds,
          .replicates = 8};
}

}  // namespace

TEST_CASE("detectable error matches hand-computed values, also in limiting cases") {
  // Critical t with 15 degrees of freedom: 2.9467 (two-sided 1 %), 1.7531 (one-sided 5 %).
  CHECK(plain(0.1, 16).detectable_at(0.01) == approx((2.9467 + 1.7531) * 0.1 / 2.0).epsilon(1e-4));
  CHECK(plain(0.1, 16, 0.3).detectable_at(0.01) == approx((0.6 + (2.9467 + 1.7531) * 0.1) / 2.0).epsilon(1e-4));
  CHECK(plain(0.0, 16).detectable_at(0.01) == 0.0);
  CHECK(std::isinf(plain(std::nan(""), 16).detectable_at(0.01)));
  judge::Test nothing = plain(0.1, 16);
  nothing.scale = 0.0;
  CHECK(std::isinf(nothing.detectable_at(0.01)));
}

TEST_CASE("an error of the detectable size is rejected in about 95 % of draws (T22)") {
  std::mt19937 engine(3);
  std::normal_distribution<double> normal;
  constexpr int seeds = 16;
  constexpr double level = 1e-4;
  int rejected = 0;
  constexpr int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> values;
    for (int s = 0; s < seeds; ++s) values.push_back(1.0 + 0.1 * normal(engine));
    const judge::Estimate mean = judge::mean_over_seeds(values);
    judge::Test test{.measured = mean, .predicted = {1.0, 0.0}, .seeds = seeds, .replicates = 8};
    test.predicted.value += test.detectable_at(level);
    rejected += test.excess() > judge::critical_excess(test.degrees(), level) ? 1 : 0;
  }
  // The rate is 93 to 96 %: t_0.95 is a quantile of Student's t, but the shifted statistic has a noncentral t law.
  CHECK(rejected > 0.92 * trials);
  CHECK(rejected < 0.97 * trials);
}

TEST_CASE("degrees of freedom and detectable errors are valid for any standard errors") {
  for (const double a : {0.0, 1e-300, 1.0, 1e300, std::numeric_limits<double>::infinity(), std::nan("")}) {
    for (const double b : {0.0, 1e-300, 1.0, 1e300, std::numeric_limits<double>::infinity(), std::nan("")}) {
      for (const int replicates : {0, 1, 8}) {
        INFO("a := ", a, ", b := ", b);
        const judge::Test test{.measured = {2.0, a}, .predicted = {1.0, b}, .seeds = 4, .replicates = replicates};
        CHECK(test.degrees() >= 1.0);
        CHECK(test.detectable_at(1e-5) >= 0.0);
      }
    }
  }
}

TEST_CASE("a predicted spread is pooled with the measured spread, and the larger error is used") {
  judge::Test test{.measured = {0.0, 0.1},
                   .predicted = {0.0, 0.025},
                   .seeds = 16,
                   .replicates = 256,
                   .spread = 0.4,
                   .spread_degrees = 255};
  CHECK(test.degrees() == 270.0);
  // Measured variance 16 · 0.01 = 0.16, predicted 0.16: pooled 0.16, error √(0.16 (1/16 + 1/256)) = √(0.01 + 0.025²).
  CHECK(test.error() == approx(std::hypot(0.1, 0.025)));
  test.measured.error = 0.01;  // seeds happen to be close together
  CHECK(test.error() == approx(std::sqrt((15 * 16 * 1e-4 + 255 * 0.16) / 270 * (1.0 / 16 + 1.0 / 256))));
  test.measured.error = 0.3;  // seeds happen to be far apart
  CHECK(test.error() == approx(std::hypot(0.3, 0.025)));
}

TEST_CASE("signals agree only if no test of a signal is underpowered") {
  for (const bool noisy : {false, true}) {
    Planted planted(noisy ? 0.5 : 0.03, 0.0);
    planted.measured.profile.curves[{Statistic::log_grad_sq, Signal::x_out}] = {{0.0}, {0.3}};
    planted.measured.profile.curves[{Statistic::grad_sq, Signal::x_out}] = {{1.0}, {0.3}};
    planted.prediction.profile.curves[{Statistic::log_grad_sq, Signal::x_out}] = {{0.0}, {0.0}};
    planted.prediction.profile.curves[{Statistic::grad_sq, Signal::x_out}] = {{1.0}, {0.0}};
    const judge::StackVerdict judged = planted.judged();
    CHECK(judged.verdict == judge::Verdict::inconclusive);
    CHECK((judged.reason.find("the signals agree") != std::string::npos) == !noisy);
  }
}

TEST_CASE("an underpowered verdict is inconclusive; a rejection outranks it") {
  const judge::StackVerdict fine = Planted(0.03, 0.0).judged();
  CHECK(fine.verdict == judge::Verdict::agrees);
  CHECK(fine.power.worst > fine.power.median);
  CHECK(fine.power.limit == 0.2);
  const judge::StackVerdict noisy = Planted(0.5, 0.0).judged();
  CHECK(noisy.verdict == judge::Verdict::inconclusive);
  CHECK(noisy.reason.find("detectable error ") != std::string::npos);
  CHECK(noisy.rejected == 0);
  config::AgreementOptions lenient;
  lenient.power_limits.second_moment = 2.0;
  CHECK(Planted(0.5, 0.0).judged(lenient).verdict == judge::Verdict::agrees);
  const judge::StackVerdict wrong = Planted(0.5, 3.0).judged();
  CHECK(wrong.verdict == judge::Verdict::disagrees);
  CHECK(judge::disagrees(wrong.worst_test()));
}

TEST_CASE("a test with a tolerated bias as large as the value never agrees, for any limit") {
  Planted stack(1e-3, 0.0);
  stack.prediction.finite_width.assign(depths, 2.0);  // times the constant 0.5: a bias as large as the value, 1
  config::AgreementOptions lenient;
  lenient.power_limits.second_moment = 999.0;
  CHECK(stack.judged(lenient).verdict == judge::Verdict::inconclusive);
  stack.prediction.finite_width.assign(depths, 1.9);
  CHECK(stack.judged(lenient).verdict == judge::Verdict::agrees);
}

TEST_CASE("NaN and inf make a verdict inconclusive without an exception") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Planted stack(0.05, 0.0);
    stack.measured.profile.curves[{Statistic::second_moment, Signal::x_out}].value[3] = bad;
    stack.measured.profile.curves[{Statistic::second_moment, Signal::x_out}].standard_error[3] = std::nan("");
    const judge::StackVerdict a = stack.judged({}, true);
    CHECK(a.verdict == judge::Verdict::inconclusive);
    CHECK(a.reason.find("second_moment x_out[3]") != std::string::npos);
  }
}

TEST_CASE("contrasts over depth reject a small error at every depth that no single test detects") {
  const Planted everywhere(0.08, 0.01, 64);
  CHECK(everywhere.judged().verdict == judge::Verdict::agrees);
  CHECK(everywhere.judged({}, true).verdict == judge::Verdict::disagrees);
  CHECK(everywhere.judged({}, true).worst_test().name() == "second_moment x_out mean");
  const Planted growing(0.08, -0.018, 64, 0.0015);
  CHECK(growing.judged().verdict == judge::Verdict::agrees);
  CHECK(growing.judged({}, true).verdict == judge::Verdict::disagrees);
  CHECK(growing.judged({}, true).worst_test().name() == "second_moment x_out slope");
  CHECK(Planted(0.08, 0.0, 64).judged({}, true).verdict == judge::Verdict::agrees);
}

TEST_CASE("contrasts match hand-computed values: the mean, and the slope from the first depth to the last") {
  const judge::StackVerdict a = Planted(0.0, 0.01, 16, 0.002).judged({}, true);
  const auto named = [&](const std::string& name) {
    return *std::ranges::find_if(a.tests, [&](const judge::Test& test) { return test.contrast == name; });
  };
  CHECK(named("mean").measured.value == approx(0.01 + 0.002 * 12));
  CHECK(named("slope").measured.value == approx(0.002 * 24));
  CHECK(named("mean").predicted.value == 0.0);
}

TEST_CASE("the spread of a contrast over finite-width replicates is computed within each id sequence, with n - 1") {
  Planted stack(0.05, 0.0);
  stack.prediction.exact_at_width = true;
  stack.prediction.spread = stack.prediction.profile;
  stack.prediction.finite_width_replicates = 6;
  stack.prediction.finite_width_degrees = 4;
  stack.prediction.replicates_per_sequence = 3;
  // Two sequences of three replicates. Every replicate is constant over depth, so its mean over depth is the constant.
  for (const double value : {0.9, 1.0, 1.1, 5.0, 5.3, 5.6}) {
    Profile& draw = stack.prediction.replicate_profiles.emplace_back();
    draw.curves[{Statistic::second_moment, Signal::x_out}] = {std::vector<double>(depths, value), {}};
  }
  const judge::StackVerdict a = stack.judged({}, true);
  const auto mean = std::ranges::find_if(a.tests, [](const judge::Test& test) { return test.contrast == "mean"; });
  REQUIRE(mean != a.tests.end());
  // Squared deviations from the sequence means are 2 · 0.1² and 2 · 0.3², with 4 degrees of freedom.
  CHECK(mean->spread == approx(std::sqrt((0.02 + 0.18) / 4.0)));
  CHECK(mean->predicted.error == approx(std::sqrt(0.05 / 6.0)));
  CHECK(mean->spread_degrees == 4);
}

TEST_CASE("the familywise error is shared by the tests of all stacks; NaN takes no share") {
  Planted stack(0.05, 0.0);
  stack.measured.profile.curves[{Statistic::second_moment, Signal::x_out}].value[3] = std::nan("");
  CHECK(stack.judged().level == approx(-std::expm1(std::log1p(-0.01) / (depths - 1.0))));
  stack = Planted(0.05, 0.0);
  stack.measured.per_seed.clear();
  const judge::Comparison one{stack.spec, stack.measured, DType::f64, stack.prediction};
  for (const judge::StackVerdict& a : judge::verdicts_of({one, one}, {})) {
    CHECK(a.level == approx(-std::expm1(std::log1p(-0.01) / (2.0 * depths))));
  }
}

TEST_CASE("four seeds reject a large error; three are not checked") {
  for (const int seeds : {3, 4}) {
    judge::Test test = plain(1e-3, seeds);
    test.measured.value = 3.0;
    judge::judge({&test}, {});
    CHECK(test.verdict == (seeds == 4 ? judge::Verdict::disagrees : judge::Verdict::not_checked));
  }
}

}  // namespace periscope
