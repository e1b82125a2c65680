#include "experiments/engine/judge/remedy.h"

#include <fmt/format.h>

#include <limits>
#include <random>
#include <string>

#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/judge/stack_verdicts.h"
#include "tests/support/doctest.h"

/// Remedies that inconclusive verdicts recommend.
namespace periscope {
namespace {

constexpr double tested_level = 1e-4;

/// Returns a test of a logarithm from 16 seeds.
judge::Test logarithm(double error, double tolerated_bias, double predicted_error = 0.0) {
  return {.statistic = Statistic::log_grad_sq,
          .measured = {0.0, error},
          .predicted = {0.0, predicted_error},
          .tolerated_bias = tolerated_bias,
          .limit = 0.5,
          .seeds = 16,
          .replicates = 32};
}

/// Returns the number directly before or after `word`.
int number_before(const std::string& words, const std::string& word) {
  const std::size_t end = words.find(' ' + word);
  REQUIRE(end != std::string::npos);
  return std::stoi(words.substr(words.rfind(' ', end - 1) + 1));
}
int number_after(const std::string& words, const std::string& word) {
  const std::size_t at = words.find(word + ' ');
  REQUIRE(at != std::string::npos);
  return std::stoi(words.substr(at + word.size() + 1));
}

}  // namespace

TEST_CASE("projected error: seeds and width reduce noise, width reduces tolerated bias, prediction errors remain") {
  const judge::Test test = logarithm(0.08, 0.02, 0.01);
  CHECK(judge::projected_error(test, tested_level, 1.0, 1.0) == test.detectable_at(tested_level));
  judge::Test projected = logarithm(0.04, 0.02, 0.01);
  projected.seeds = 64;
  CHECK(judge::projected_error(test, tested_level, 4.0, 1.0) == approx(projected.detectable_at(tested_level)));
  projected = logarithm(0.04, 0.005, 0.01);
  CHECK(judge::projected_error(test, tested_level, 1.0, 4.0) == approx(projected.detectable_at(tested_level)));
}

TEST_CASE("projected error at finite width (T25): replicates scale with seeds, width has no tolerated bias") {
  judge::Test test{.measured = {0.0, 0.08},
                   .predicted = {0.0, 0.04},
                   .tolerated_bias = 1e-4,
                   .seeds = 16,
                   .replicates = 64,
                   .spread = 0.3,
                   .spread_degrees = 63};
  const double before = test.detectable_at(tested_level);
  CHECK(judge::projected_error(test, tested_level, 1.0, 1.0) == before);
  const double seeds = judge::projected_error(test, tested_level, 4.0, 1.0);
  test.measured.error = 0.04;
  test.predicted.error = 0.02;
  test.seeds = 64;
  test.replicates = 256;
  test.spread_degrees = 252;
  CHECK(seeds == approx(test.detectable_at(tested_level)));
  CHECK(seeds < 0.55 * before);
}

TEST_CASE("a configured number of replicates does not scale with seeds and is named if it limits power") {
  judge::Test test{.measured = {0.0, 0.02},
                   .predicted = {0.0, 0.03},
                   .limit = 0.1,
                   .seeds = 64,
                   .replicates = 16,
                   .spread = 0.12,
                   .spread_degrees = 15,
                   .replicates_given = true};
  judge::Test projected = test;
  projected.measured.error = 0.01;
  projected.seeds = 256;
  CHECK(judge::projected_error(test, tested_level, 4.0, 1.0) == approx(projected.detectable_at(tested_level)));
  const std::string words = judge::remedy({test}, tested_level, 0);
  CAPTURE(words);
  CHECK(words.find("(theory.replicates)") != std::string::npos);
  test.replicates_given = false;
  CHECK(judge::remedy({test}, tested_level, 0).ends_with(" seeds"));
}

TEST_CASE("the recommended seeds and width are the smallest that give enough power") {
  const double limit = 0.5;
  for (const double error : {0.07, 0.1, 0.2}) {
    CAPTURE(error);
    const judge::Test test = logarithm(error, 0.05);
    REQUIRE(test.detectable_at(tested_level) > limit);
    const std::string words = judge::remedy({test}, tested_level, 256);
    CAPTURE(words);
    const int seeds = number_before(words, "seeds");
    CHECK(judge::projected_error(test, tested_level, seeds / 16.0, 1.0) <= limit);
    // Counts above 100 are rounded up to two significant digits.
    CHECK(judge::projected_error(test, tested_level, (seeds < 100 ? seeds - 1.0 : 0.9 * seeds) / 16.0, 1.0) > limit);
    const int width = number_after(words, "width");
    CHECK(judge::projected_error(test, tested_level, 1.0, width / 256.0) <= limit);
    CHECK((width == 512 || judge::projected_error(test, tested_level, 1.0, width / 512.0) > limit));
    CHECK(words.starts_with("use about "));
  }
}

TEST_CASE("the test with the least power determines the recommendation") {
  const std::string all = judge::remedy({logarithm(0.08, 0.0), logarithm(0.2, 0.0)}, tested_level, 256);
  CHECK(all == judge::remedy({logarithm(0.2, 0.0)}, tested_level, 256));
}

TEST_CASE("width is recommended if more seeds do not help, and nothing if power suffices") {
  CHECK(judge::remedy({logarithm(0.001, 0.01)}, tested_level, 256).empty());
  const std::string words = judge::remedy({logarithm(0.001, 0.4)}, tested_level, 256);
  CHECK(number_after(words, "width") == 512);
  CHECK(judge::remedy({logarithm(0.001, 0.4)}, tested_level, 0) == judge::nothing_within_reach);
}

TEST_CASE("the tolerance key is named if the error of the prediction limits power") {
  const std::string words = judge::remedy({logarithm(0.01, 0.0, 0.2)}, tested_level, 256);
  CAPTURE(words);
  CHECK(words.find("(theory.gradient_tolerance)") != std::string::npos);
  judge::Test forward = logarithm(0.01, 0.0, 0.2);
  forward.statistic = Statistic::token_cosine;
  CHECK(judge::remedy({forward}, tested_level, 256).find("(theory.tolerance)") != std::string::npos);
}

TEST_CASE("the recommended width reduces gradient fluctuations that are too large for a tolerated bias") {
  judge::Test wild = logarithm(0.5, std::numeric_limits<double>::infinity());
  wild.fluctuation = 13.0;  // at 128 times the width (8192), below a quarter of the limit
  CHECK(number_after(judge::remedy({wild}, tested_level, 64), "width") == 8192);
}

TEST_CASE("a verdict with the recommended seeds is conclusive") {
  // The theory is correct, values vary over seeds by 0.5, and the limit is 0.2. The recommended number should suffice.
  std::mt19937 engine(11);
  std::normal_distribution<double> normal;
  const auto judged = [&](int seeds) {
    judge::SeedRows rows;
    for (int s = 0; s < seeds; ++s) rows.add({1.0 + 0.5 * normal(engine), 1.0 + 0.5 * normal(engine)});
    Profile measured;
    measured.curves[{Statistic::second_moment, Signal::x_out}] = rows.curve();
    theory::Prediction prediction;
    prediction.profile.curves[{Statistic::second_moment, Signal::x_out}] = {{1.0, 1.0}, {0.0, 0.0}};
    prediction.finite_width.assign(2, 0.0);
    prediction.replicates = 32;
    const StackSpec spec;
    return judge::verdicts_of({{spec, {measured, seeds}, DType::f64, prediction}}, config::AgreementOptions{}).front();
  };
  int decided = 0;
  for (int run = 0; run < 20; ++run) {
    const judge::StackVerdict first = judged(16);
    REQUIRE(first.verdict == judge::Verdict::inconclusive);
    const int seeds = number_before(first.reason, "seeds");
    CHECK(seeds < 1000);
    // 16 seeds estimate the spread to within 20 % and therefore the number of seeds to within 40 %.
    decided += judged(seeds).verdict == judge::Verdict::agrees ? 1 : 0;
  }
  CHECK(decided >= 5);
  CHECK(decided < 20);  // the recommendation is a minimum, without a margin
}

TEST_CASE("an imprecise prediction names the tolerance that it meets; NaN has no remedy") {
  const auto judged = [](const judge::Test& test, const judge::Test& other) {
    judge::StackVerdict stack{.tests = {test, other}, .width = 256};
    judge::judge({&stack}, tested_level);
    REQUIRE(stack.verdict == judge::Verdict::inconclusive);
    return stack.reason;
  };
  judge::Test imprecise = logarithm(0.01, 0.0, 0.004);
  imprecise.precise = false;
  CHECK(judged(imprecise, imprecise).ends_with("(theory.gradient_tolerance = 0.0044 would be met)"));
  judge::Test share = imprecise;
  share.statistic = Statistic::score_share;  // a share's tolerance is relative
  share.measured.value = share.predicted.value = 0.5;
  share.measured.error = 0.001;
  CHECK(judged(share, share).ends_with("(theory.gradient_tolerance = 0.0088 would be met)"));
  judge::Test missing = logarithm(0.2, 0.0);
  missing.measured.value = std::numeric_limits<double>::quiet_NaN();
  CHECK(judged(missing, logarithm(0.2, 0.0)) == "log_grad_sq x_out[0]: measured NaN, predicted 0");
}

}  // namespace periscope
