#include <cmath>
#include <string>
#include <vector>

#include "experiments/studies/formats/formats.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"

/// What planted results of `formats` decide.
namespace periscope {
namespace {

using formats::Measure;

/// A stack in f64 and in one format, with what decides the exit code.
std::vector<formats::FormatsStack> planted_formats(judge::Verdict exact, judge::Verdict format, bool certified,
                                                   bool overflowed) {
  formats::FormatsStack stack;
  for (const judge::Verdict verdict : {exact, format}) {
    formats::FormatResult& result = stack.formats.emplace_back();
    result.law.verdict = verdict;
    result.variants.resize(1);
  }
  stack.formats[1].certificate = formats::FormatCertificate{.certified = certified};
  stack.formats[1].variants[0].forward.of_first_seed = overflowed;
  return {stack};
}

}  // namespace

TEST_CASE("formats: a format may break the law and overflow; theory must hold in f64, and certificates") {
  for (const judge::Verdict format :
       {judge::Verdict::agrees, judge::Verdict::disagrees, judge::Verdict::inconclusive, judge::Verdict::not_checked}) {
    CHECK_FALSE(formats::check_failed(planted_formats(judge::Verdict::agrees, format, false, true)));
    CHECK_FALSE(formats::check_failed(planted_formats(judge::Verdict::inconclusive, format, true, false)));
  }
  CHECK(formats::check_failed(planted_formats(judge::Verdict::disagrees, judge::Verdict::agrees, false, false)));
  CHECK(formats::check_failed(planted_formats(judge::Verdict::agrees, judge::Verdict::agrees, true, true)));
  std::vector<formats::FormatsStack> none = planted_formats(judge::Verdict::agrees, judge::Verdict::agrees, true, true);
  none[0].formats[1].certificate.reset();
  CHECK_FALSE(formats::check_failed(none));
}

TEST_CASE("formats: what massive features do is Student's t of the paired differences, of all formats together") {
  const auto words = [](const std::vector<double>& costs, int formats) {
    std::vector<formats::FormatsStack> result(1);
    formats::FormatsStack& stack = result.front();
    stack.seeds = static_cast<int>(costs.size());
    for (int f = 0; f <= formats; ++f) {
      formats::FormatResult& format = stack.formats.emplace_back();
      format.name = f == 0 ? "fp64" : "fp16";
      format.variants.resize(1);
      format.variants[0].forward.seeds = 1;  // no law is judged
      for (const double cost : costs) {
        if (f > 0) format.branch_cost.add(cost);
      }
    }
    formats::judge_formats(result, {.familywise_error = 0.05});
    CHECK(formats::massive_words(stack.formats[0].massive).empty());
    return formats::massive_words(stack.formats[1].massive);
  };
  // Four differences of mean 1 and deviation 0.5: t = 4. The limit of one test is 3.18, of ten 6.5.
  const double d = 0.5 * std::sqrt(0.75);
  CHECK(words({1.0 + d, 1.0 + d, 1.0 - d, 1.0 - d}, 1) == "hurts");
  CHECK(words({1.0 + d, 1.0 + d, 1.0 - d, 1.0 - d}, 10) == "no difference seen");
  CHECK(words({-1.0 + d, -1.0 + d, -1.0 - d, -1.0 - d}, 1) == "helps");
  CHECK(words({std::nan(""), 1.0, 1.0, 1.0}, 1) == "not finite");
  CHECK(words({1.0, 1.0, 1.0}, 1).empty());
}

TEST_CASE("formats: a law that a format bends is refused, one that it keeps is not") {
  formats::FormatsStack stack;
  ModelSpec& m = stack.spec.model;
  m.layers = 3;
  stack.seeds = 16;
  stack.prediction.exact_at_width = true;
  stack.prediction.replicates = stack.prediction.finite_width_replicates = 64;
  stack.prediction.finite_width_degrees = 63;
  for (const Statistic s : {Statistic::second_moment, Statistic::variance}) {
    Curve& mean = stack.prediction.profile.curves[{s, Signal::x_out}];
    Curve& spread = stack.prediction.spread.curves[{s, Signal::x_out}];
    for (int depth = 0; depth <= 6; ++depth) {
      mean.value.push_back(1.0 + depth);
      mean.standard_error.push_back(0.003);
      spread.value.push_back(0.02);
    }
  }
  for (int replicate = 0; replicate < 64; ++replicate)
    stack.prediction.replicate_profiles.push_back(stack.prediction.profile);
  stack.prediction.replicates_per_sequence = 64;
  for (const auto& [name, bend] : {std::pair("fp64", 0.0), {"fp16", 0.0}, {"bf16", 0.05}}) {
    formats::FormatResult& format = stack.formats.emplace_back();
    format.name = name;
    formats::Variant& variant = format.variants.emplace_back();
    auto& numbers = variant.numbers;
    for (const Measure drift : {Measure::second_moment_drift, Measure::variance_drift}) {
      numbers[{formats::stream_site, drift}].resize(formats::places_of(m));
    }
    for (int seed = 0; seed < 16; ++seed) {
      Profile profile;
      for (const auto& [statistic, drift] : {std::pair(Statistic::second_moment, Measure::second_moment_drift),
                                             std::pair(Statistic::variance, Measure::variance_drift)}) {
        for (int depth = 0; depth <= 6; ++depth) {
          const double value = 1.0 + depth * (1.0 + bend) + (seed % 2 == 0 ? 0.02 : -0.02);
          numbers[{formats::stream_site, drift}][static_cast<std::size_t>(depth)].add(bend +
                                                                                      (seed % 2 == 0 ? 1e-3 : -1e-3));
          profile.curves[{statistic, Signal::x_out}].value.push_back(value);
        }
      }
      format.law_profiles.push_back(profile);
    }
  }
  const auto judged_with = [&](const auto& edit) {
    std::vector<formats::FormatsStack> result{stack};
    edit(result[0]);
    formats::judge_formats(result, {});
    return result[0].formats;
  };
  const auto judged = judged_with([](formats::FormatsStack&) {});
  CHECK(judged[0].law.verdict == judge::Verdict::agrees);
  CHECK(judged[1].law.verdict == judge::Verdict::agrees);
  CHECK(judged[2].law.verdict == judge::Verdict::disagrees);
  CHECK(judged[0].drift.tests.empty());
  CHECK(judged[1].drift.verdict == judge::Verdict::agrees);
  CHECK(judged[2].drift.verdict == judge::Verdict::disagrees);
  // Both formats, two statistics, seven depths.
  CHECK(judged[1].drift.level == doctest::Approx(1.0 - std::pow(0.99, 1.0 / 28.0)).epsilon(1e-12));
  // What the stream's rounding may do is of one format.
  CHECK(judged_with([](auto& s) { s.formats[2].stream_rounding = 0.06; })[2].drift.rejected == 0);
  CHECK(judged_with([](auto& s) { s.formats[1].stream_rounding = 0.06; })[2].drift.rejected > 0);
  // A format in which seeds diverged has no verdicts and no tests, few seeds none anywhere.
  const auto diverged = judged_with([](auto& s) { s.formats[1].variants[0].forward.seeds = 2; });
  CHECK(diverged[1].law.reason == "2 of 16 seeds diverged");
  CHECK(diverged[1].drift.reason == "2 of 16 seeds diverged");
  CHECK(diverged[1].drift.verdict == judge::Verdict::not_checked);
  CHECK(diverged[2].drift.level == doctest::Approx(1.0 - std::pow(0.99, 1.0 / 14.0)).epsilon(1e-12));
  const auto few = judged_with([](auto& s) { s.seeds = 3; });
  CHECK(few[0].law.reason == "a verdict needs 4 seeds, found 3");
  CHECK(few[2].drift.reason == "a verdict needs 4 seeds, found 3");
}

TEST_CASE("formats: the first overflow in the order of a pass, how many seeds, and whether the first seed had one") {
  const formats::FormatsConfig config = testing::small_config("pre", {"fp16"});
  formats::SeedReading reading = testing::reading_of(config);
  formats::FormatsStack stack;
  stack.spec = config.base;
  for (int f = 0; f < 2; ++f) stack.formats.emplace_back().variants.resize(1);
  const std::vector<formats::FirstOverflow> seen{
      {}, {true, 2, Signal::up}, {true, 1, Signal::hidden}, {true, 1, Signal::up}, {true, 3, Signal::q}};
  for (std::size_t seed = 0; seed < seen.size(); ++seed) {
    reading[0][1].forward = reading[0][1].backward = seen[seed];
    formats::add(stack, reading);
  }
  const formats::Variant& half = stack.formats[1].variants[0];
  CHECK(half.forward.seeds == 4);
  CHECK(half.forward.first.sublayer == 1);
  CHECK(half.forward.first.signal == Signal::up);  // before hidden
  CHECK_FALSE(half.forward.of_first_seed);
  CHECK(half.backward.first.sublayer == 3);  // the backward pass begins there
  CHECK(half.backward.first.signal == Signal::q);
  CHECK(stack.formats[0].variants[0].forward.seeds == 0);
  stack.seeds = 0;
  formats::add(stack, reading);
  CHECK(half.forward.of_first_seed);
}

}  // namespace periscope
