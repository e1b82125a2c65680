#include <cmath>
#include <vector>

#include "experiments/studies/formats/formats.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"

/// Verdicts of `formats` on constructed results.
namespace periscope {

using formats::Measure;

TEST_CASE("formats: the check fails only if theory disagrees in f64 or a certified run overflows") {
  using enum judge::Verdict;
  const auto failed = [](judge::Verdict exact, judge::Verdict format, std::optional<bool> certified, bool overflowed) {
    formats::FormatsStack stack;
    for (const judge::Verdict verdict : {exact, format}) {
      formats::FormatResult& result = stack.formats.emplace_back();
      result.law.verdict = verdict;
      result.variants.resize(1);
    }
    if (certified) stack.formats[1].certificate = formats::FormatCertificate{.certified = *certified};
    stack.formats[1].variants[0].forward.of_first_seed = overflowed;
    return formats::check_failed({stack});
  };
  for (const judge::Verdict format : {agrees, disagrees, inconclusive, not_checked}) {
    CHECK_FALSE(failed(agrees, format, false, true));
    CHECK_FALSE(failed(inconclusive, format, true, false));
  }
  CHECK(failed(disagrees, agrees, false, false));
  CHECK(failed(agrees, agrees, true, true));
  CHECK_FALSE(failed(agrees, agrees, std::nullopt, true));
}

TEST_CASE("formats: the effect of massive features is judged by Student's t of paired differences over all formats") {
  const auto words = [](const std::vector<double>& costs, int formats) {
    std::vector<formats::FormatsStack> result(1);
    formats::FormatsStack& stack = result.front();
    stack.seeds = static_cast<int>(costs.size());
    for (int f = 0; f <= formats; ++f) {
      formats::FormatResult& format = stack.formats.emplace_back();
      format.name = f == 0 ? "fp64" : "fp16";
      format.variants.resize(1);
      format.variants[0].forward.seeds = 1;  // a diverged seed: the law is not judged
      for (const double cost : costs)
        if (f > 0) format.branch_cost.add(cost);
    }
    formats::judge_formats(result, {.familywise_error = 0.05});
    return formats::massive_words(stack.formats[1].massive);
  };
  // Four differences of mean 1 and standard deviation 0.5: t = 4. Critical values: 3.18 for one test, 6.5 for ten.
  const double d = 0.5 * std::sqrt(0.75);
  CHECK(words({1.0 + d, 1.0 + d, 1.0 - d, 1.0 - d}, 1) == "hurts");
  CHECK(words({1.0 + d, 1.0 + d, 1.0 - d, 1.0 - d}, 10) == "no difference seen");
  CHECK(words({-1.0 + d, -1.0 + d, -1.0 - d, -1.0 - d}, 1) == "helps");
  CHECK(words({std::nan(""), 1.0, 1.0, 1.0}, 1) == "not finite");
  CHECK(words({1.0, 1.0, 1.0}, 1).empty());
}

TEST_CASE("formats: a law is rejected only in the format that changes it") {
  constexpr int depths = 7;
  constexpr int seeds = 16;
  const std::pair<Statistic, Measure> statistics[] = {{Statistic::second_moment, Measure::second_moment_drift},
                                                      {Statistic::variance, Measure::variance_drift}};
  formats::FormatsStack stack;
  stack.spec.model.layers = 3;
  stack.seeds = seeds;
  theory::Prediction& p = stack.prediction;
  p.exact_at_width = true;
  p.replicates = p.finite_width_replicates = p.replicates_per_sequence = 64;
  p.finite_width_degrees = 63;
  for (const auto& [statistic, drift] : statistics) {
    Curve& mean = p.profile.curves[{statistic, Signal::x_out}];
    for (int depth = 0; depth < depths; ++depth) mean.value.push_back(1.0 + depth);
    mean.standard_error.assign(depths, 0.003);
    p.spread.curves[{statistic, Signal::x_out}].value.assign(depths, 0.02);
  }
  p.replicate_profiles.assign(64, p.profile);
  for (const auto& [name, change] : {std::pair("fp64", 0.0), {"fp16", 0.0}, {"bf16", 0.05}}) {
    formats::FormatResult& format = stack.formats.emplace_back();
    format.name = name;
    auto& numbers = format.variants.emplace_back().numbers;
    for (int seed = 0; seed < seeds; ++seed) {
      const double noise = seed % 2 == 0 ? 1.0 : -1.0;
      Profile& profile = format.law_profiles.emplace_back();
      for (const auto& [statistic, drift] : statistics) {
        auto& drifts = numbers[{formats::stream_site, drift}];
        drifts.resize(formats::places_of(stack.spec.model));
        for (int depth = 0; depth < depths; ++depth) {
          drifts[static_cast<std::size_t>(depth)].add(change + 1e-3 * noise);
          profile.curves[{statistic, Signal::x_out}].value.push_back(1.0 + depth * (1.0 + change) + 0.02 * noise);
        }
      }
    }
  }
  const auto judged_with = [&](const auto& edit) {
    std::vector<formats::FormatsStack> result{stack};
    edit(result[0]);
    formats::judge_formats(result, {});
    return result[0].formats;
  };
  using enum judge::Verdict;
  const auto judged = judged_with([](formats::FormatsStack&) {});
  CHECK((judged[0].law.verdict == agrees && judged[1].law.verdict == agrees && judged[2].law.verdict == disagrees));
  CHECK(judged[0].drift.tests.empty());
  CHECK((judged[1].drift.verdict == agrees && judged[2].drift.verdict == disagrees));
  // 28 tests: two formats, two statistics, seven depths.
  CHECK(judged[1].drift.level == approx(1.0 - std::pow(0.99, 1.0 / 28.0)).epsilon(1e-12));
  // Each format has its own tolerance for rounding of the stream.
  CHECK(judged_with([](auto& s) { s.formats[2].stream_rounding = 0.06; })[2].drift.rejected == 0);
  CHECK(judged_with([](auto& s) { s.formats[1].stream_rounding = 0.06; })[2].drift.rejected > 0);
  // A format in which seeds diverged has no tests or verdicts. With few seeds, no format has tests or verdicts.
  const auto diverged = judged_with([](auto& s) { s.formats[1].variants[0].forward.seeds = 2; });
  CHECK((diverged[1].law.verdict == not_checked && diverged[1].drift.verdict == not_checked));
  CHECK(diverged[2].drift.level == approx(1.0 - std::pow(0.99, 1.0 / 14.0)).epsilon(1e-12));
  const auto few = judged_with([](auto& s) { s.seeds = 3; });
  CHECK((few[0].law.verdict == not_checked && few[2].drift.verdict == not_checked));
}

TEST_CASE("formats: add() records the first overflow of a pass, the number of overflowing seeds and the first seed") {
  const formats::FormatsConfig config = testing::small_config("pre", {"fp16"});
  formats::SeedReading reading = testing::reading_of(config);
  formats::FormatsStack stack;
  stack.spec = config.base;
  for (int f = 0; f < 2; ++f) stack.formats.emplace_back().variants.resize(1);
  const formats::Variant& half = stack.formats[1].variants[0];
  for (const formats::FirstOverflow& seen : {formats::FirstOverflow{},
                                             {true, 2, Signal::up},
                                             {true, 1, Signal::hidden},
                                             {true, 1, Signal::up},
                                             {true, 3, Signal::q}}) {
    reading[0][1].forward = reading[0][1].backward = seen;
    formats::add(stack, reading);
  }
  CHECK(half.forward.seeds == 4);
  CHECK(half.forward.first.sublayer == 1);
  CHECK(half.forward.first.signal == Signal::up);  // precedes `hidden` in the sublayer
  CHECK_FALSE(half.forward.of_first_seed);
  CHECK(half.backward.first.sublayer == 3);  // the backward pass starts at sublayer 3
  CHECK(stack.formats[0].variants[0].forward.seeds == 0);
  stack.seeds = 0;
  formats::add(stack, reading);
  CHECK(half.forward.of_first_seed);
}

}  // namespace periscope
