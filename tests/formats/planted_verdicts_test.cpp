#include <algorithm>

#include "tests/formats/planted.h"
#include "tests/support/doctest.h"

/// What a run of `formats` adds up and decides, computed again from planted raw numbers.
namespace periscope::testing {
namespace {

using formats::Measure;

constexpr Statistic statistics[] = {Statistic::second_moment, Statistic::variance};
constexpr Measure measures[] = {Measure::second_moment, Measure::variance};

/// One part in 10^11, or of 1: two ways to add up a dozen numbers.
void same(const std::string& what, double found, double expected) {
  INFO(what, ": ", found, ", expected ", expected);
  const bool equal = std::abs(found - expected) <= 1e-11 * std::max(1.0, std::abs(expected));
  CHECK(equal);
}

TEST_CASE("formats: the first overflow in the order of a pass, how many seeds, and whether the first seed had one") {
  PlantedReadings planted;
  formats::FormatsStack& stack = planted.result.stacks[1];
  using formats::FirstOverflow;
  const std::vector<FirstOverflow> seen{
      {}, {true, 2, Signal::up}, {true, 1, Signal::hidden}, {true, 1, Signal::up}, {true, 3, Signal::q}};
  for (std::size_t seed = 0; seed < PlantedReadings::seeds; ++seed) {
    formats::SeedReading reading = planted.readings[1][seed];
    reading.passes[0][1].forward = seen[seed];
    reading.passes[0][1].backward = seen[seed];
    reading.passes[1][2].forward = seen[(seed + 4) % 5];  // the first seed has one: q in sublayer 3
    formats::add(stack, reading, 70 + seed, seed == 0);
  }
  const formats::Variant& plain = stack.formats[1].variants[0];
  CHECK(plain.forward.seeds == 4);
  CHECK(plain.forward.first.sublayer == 1);
  CHECK(plain.forward.first.signal == Signal::up);  // before hidden
  CHECK(plain.forward.seed == 73);
  CHECK_FALSE(plain.forward.of_first_seed);
  CHECK(plain.backward.seeds == 4);
  CHECK(plain.backward.first.sublayer == 3);  // the backward pass begins there
  CHECK(plain.backward.first.signal == Signal::q);
  CHECK(plain.backward.seed == 74);
  const formats::Variant& massive = stack.formats[2].variants[1];
  CHECK(massive.forward.of_first_seed);
  CHECK(massive.forward.seed == 74);
  CHECK(stack.formats[2].variants[0].forward.seeds == 0);
  CHECK(stack.formats[1].variants[1].forward.seeds == 0);
}

/// With a prediction at the stacks' own width beside the planted curves, and an allowance for each format.
struct Judged : PlantedReadings {
  Judged() {
    add_all();
    for (std::size_t s = 0; s < 2; ++s) {
      formats::FormatsStack& stack = result.stacks[s];
      theory::Prediction& p = stack.prediction;
      p.exact_at_width = true;
      p.replicates = p.finite_width_replicates = 12;
      p.finite_width_degrees = 11;
      for (std::size_t m = 0; m < 2; ++m) {
        Curve& mean = p.profile.curves[{statistics[m], Signal::x_out}];
        Curve& spread = p.spread.curves[{statistics[m], Signal::x_out}];
        for (std::size_t depth = 0; depth + 1 < places(s); ++depth) {
          mean.value.push_back(1.0 + 0.1 * irregular(7000 + 100 * s + 20 * m + depth));
          mean.standard_error.push_back(0.02 * irregular(7050 + 100 * s + 20 * m + depth));
          spread.value.push_back(0.1 * irregular(7070 + 100 * s + 20 * m + depth));
        }
      }
      for (std::size_t f = 1; f < formats; ++f) stack.formats[f].stream_rounding = 0.01 * irregular(7500 + 10 * s + f);
    }
    formats::judge_laws(result, config.agreement);
  }
};

TEST_CASE("formats: drifts are tested at the level of all stacks and formats together") {
  const Judged judged;
  // Two formats, two statistics, 3 and 5 depths.
  const double level = -std::expm1(std::log1p(-0.01) / (2.0 * 2.0 * (3.0 + 5.0)));
  for (std::size_t s = 0; s < 2; ++s) {
    const formats::FormatsStack& stack = judged.result.stacks[s];
    CHECK(stack.formats[0].drift.tests.empty());
    CHECK(stack.formats[0].drift.verdict == judge::Verdict::not_checked);
    for (std::size_t f = 1; f < PlantedReadings::formats; ++f) {
      const judge::StackVerdict& drift = stack.formats[f].drift;
      INFO(stack.formats[f].name);
      same("level of the drift", drift.level, level);
      REQUIRE(drift.tests.size() == 2 * (judged.places(s) - 1));
      const double allowance = stack.formats[f].stream_rounding + 100.0 * 0x1p-23;
      const double limit = judge::critical_excess(PlantedReadings::seeds - 1.0, level);
      int rejected = 0;
      double largest = -1.0;
      double power = 0.0;
      std::string worst;
      for (const judge::Test& test : drift.tests) {
        const std::size_t m = test.statistic == Statistic::second_moment ? 0 : 1;
        const auto depth = static_cast<std::size_t>(test.index);
        const MeanAndError by_hand =
            mean_and_error(judged.drift(s, f, 0, judged.site(s, Signal::x_out), measures[m], depth));
        same("drift", test.measured.value, by_hand.mean);
        same("its error", test.measured.error, by_hand.error);
        same("its tolerated bias", test.tolerated_bias, allowance);
        CHECK(test.predicted.value == 0.0);
        CHECK(test.seeds == static_cast<int>(PlantedReadings::seeds));
        const double excess = (std::abs(by_hand.mean) - allowance) / by_hand.error;
        rejected += excess > limit ? 1 : 0;
        if (excess > largest) {
          largest = excess;
          worst = test.name();
        }
        // T22, with t_0.95 one-sided as a two-sided level of 10 %.
        const double t = limit + judge::critical_excess(PlantedReadings::seeds - 1.0, 0.1);
        power = std::max(power, 2.0 * allowance + t * by_hand.error);
      }
      CHECK(drift.rejected == rejected);
      CHECK(drift.worst_test().name() == worst);
      same("power", drift.power.worst, power);
      CHECK(drift.verdict == (rejected > 0  ? judge::Verdict::disagrees
                              : power > 0.2 ? judge::Verdict::inconclusive
                                            : judge::Verdict::agrees));
    }
  }
}

TEST_CASE("formats: an allowance of one format is no other's, and decides") {
  // A drift that is nothing but its mean: 3 % in FP16 of the first stack, with an error of 1e-4.
  Judged judged;
  formats::FormatsStack& stack = judged.result.stacks[0];
  const std::size_t first = judged.site(0, Signal::x_out) * judged.places(0);
  for (std::size_t f = 1; f < PlantedReadings::formats; ++f) {
    formats::Variant& plain = stack.formats[f].variants[0];
    for (auto* drifts : {&plain.second_moment_drift, &plain.variance_drift}) {
      for (std::size_t p = 0; p + 1 < judged.places(0); ++p) {
        RunningMoments moments;
        for (const double d : {-2e-4, -1e-4, 0.0, 1e-4, 2e-4}) moments.add(0.03 + d);
        (*drifts)[first + p] = moments;
      }
    }
  }
  const auto verdicts = [&](double of_fp16, double int8) {
    for (formats::FormatResult& format : stack.formats) format.drift = {};
    for (formats::FormatResult& format : judged.result.stacks[1].formats) format.drift = {};
    stack.formats[1].stream_rounding = of_fp16;
    stack.formats[2].stream_rounding = int8;
    formats::judge_laws(judged.result, judged.config.agreement);
    return std::pair(stack.formats[1].drift.verdict, stack.formats[2].drift.verdict);
  };
  // The error is √(2.5e-8/5) = 7.1e-5 and the limit of 32 tests about 10 of them: 7e-4.
  const double level = -std::expm1(std::log1p(-0.01) / 32.0);
  const double reach = judge::critical_excess(4.0, level) * std::sqrt(0.5) * 1e-4;
  CHECK(reach == doctest::Approx(7.6e-4).epsilon(0.2));
  const double f32 = 100.0 * 0x1p-23;
  CHECK(verdicts(0.03 - f32 - 0.99 * reach, 0.03 - f32 - 1.01 * reach) ==
        std::pair(judge::Verdict::agrees, judge::Verdict::disagrees));
  CHECK(verdicts(0.03 - f32 - 1.01 * reach, 0.03 - f32 - 0.99 * reach) ==
        std::pair(judge::Verdict::disagrees, judge::Verdict::agrees));
}

TEST_CASE("formats: a run that diverged in a format has no verdicts there, few seeds none anywhere") {
  Judged judged;
  judged.result.stacks[0].formats[1].variants[0].forward.seeds = 2;
  for (auto& stack : judged.result.stacks) {
    for (auto& format : stack.formats) format.drift = {};
  }
  formats::judge_laws(judged.result, judged.config.agreement);
  const auto& formats_of_first = judged.result.stacks[0].formats;
  CHECK(formats_of_first[1].law.reason == "2 of 5 seeds diverged");
  CHECK(formats_of_first[1].drift.reason == "2 of 5 seeds diverged");
  CHECK(formats_of_first[1].drift.verdict == judge::Verdict::not_checked);
  CHECK(formats_of_first[2].drift.reason != "2 of 5 seeds diverged");
  // Tests that are not made do not count: 3 depths of one format are left out.
  same("level", formats_of_first[2].drift.level, -std::expm1(std::log1p(-0.01) / (32.0 - 6.0)));
  judged.result.stacks[1].seeds = 3;
  formats::judge_laws(judged.result, judged.config.agreement);
  CHECK(judged.result.stacks[1].formats[2].drift.reason == "a verdict needs 4 seeds, found 3");
  CHECK(judged.result.stacks[1].formats[0].law.reason == "a verdict needs 4 seeds, found 3");
}

}  // namespace
}  // namespace periscope::testing
