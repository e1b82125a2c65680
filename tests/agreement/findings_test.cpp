#include "experiments/engine/judge/claims.h"
#include "experiments/engine/judge/judge.h"
#include "experiments/engine/judge/seed_rows.h"

#include <cmath>

#include "experiments/studies/gradients/common.h"
#include "tests/support/doctest.h"

namespace periscope {
namespace {

/// A test with measured value 1 ± 0.1 from 16 seeds.
judge::Test planted(double predicted, double tolerated_bias = 0.0) {
  return {.measured = {1.0, 0.1},
          .predicted = {predicted, 0.0},
          .tolerated_bias = tolerated_bias,
          .seeds = 16,
          .replicates = 8};
}

judge::Test judged(judge::Test test) {
  judge::judge({&test}, {.familywise_error = 0.01});
  return test;
}

judge::Verdict verdict_of(const judge::Test& test) { return judged(test).verdict; }

judge::ClaimVerdict verdict_on_claim(const judge::Estimate& measured, int seeds, double claimed, double correction,
                                     double limit = 1.0) {
  judge::Claim claim{.claimed = claimed,
                     .test = {.measured = measured, .predicted = {claimed, 0.0}, .limit = limit, .seeds = seeds},
                     .correction = correction};
  judge::judge({&claim}, 0.01);
  return claim.verdict;
}

}  // namespace

TEST_CASE("slope_weights gives the slope of a line through all points or through the last points only") {
  const std::vector<double> x{1.0, 2.0, 4.0, 7.0};
  const auto slope = [&](const std::vector<double>& y, std::size_t from) {
    const std::vector<double> a = judge::slope_weights(x, from);
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += a[i] * y[i];
    return sum;
  };
  CHECK(slope({5.0, 3.0, -1.0, -7.0}, 0) == approx(-2.0).epsilon(1e-14));
  CHECK(slope({99.0, 3.0, -1.0, -7.0}, 1) == approx(-2.0).epsilon(1e-14));
  CHECK(slope({1.0, 0.0, 0.0, 0.0}, 0) == approx(-2.5 / 21.0).epsilon(1e-14));  // (x_0 − 3.5)/Σ(x − 3.5)², x_0 = 1
  CHECK_THROWS(judge::slope_weights({3.0, 3.0}));
  CHECK_THROWS(judge::slope_weights(x, 3));
}

TEST_CASE("a test agrees within noise and tolerated bias; a wrong constant is rejected") {
  CHECK(verdict_of(planted(1.2)) == judge::Verdict::agrees);
  CHECK(verdict_of(planted(1.5)) == judge::Verdict::disagrees);    // 5 standard errors, critical value 2.9
  CHECK(verdict_of(planted(1.5, 0.3)) == judge::Verdict::agrees);  // 2 standard errors beyond the tolerated bias
  CHECK(verdict_of(planted(-0.5, 0.3)) == judge::Verdict::disagrees);
  judge::Test neither = planted(std::nan(""));
  neither.measured.value = std::nan("");
  CHECK(verdict_of(neither) == judge::Verdict::not_checked);
}

TEST_CASE("reasons of inconclusive tests name the key to change; a rejection outranks an imprecise prediction") {
  CHECK(judged(planted(std::nan(""))).reason.find("NaN") != std::string::npos);
  judge::Test weak = planted(1.2);
  weak.limit = 0.1;
  CHECK(judged(weak).reason.find("use about 290 seeds") != std::string::npos);
  judge::Test imprecise = planted(1.2);
  imprecise.predicted.error = 0.05;
  imprecise.precise = false;
  CHECK(judged(imprecise).reason.find("theory.gradient_tolerance") != std::string::npos);
  imprecise.predicted.value = 9.0;
  CHECK(verdict_of(imprecise) == judge::Verdict::disagrees);
}

TEST_CASE("the deciding test is the first of: rejected, NaN, underpowered, imprecise, agreeing") {
  std::vector<judge::Test> all(5, planted(1.2));
  all[1].precise = false;
  all[2].limit = 0.1;
  all[3].predicted.value = std::nan("");
  all[4].predicted.value = 9.0;
  std::vector<judge::Test*> pointers;
  for (judge::Test& test : all) pointers.push_back(&test);
  judge::judge(pointers, {.familywise_error = 0.01});
  const judge::Verdict verdicts[] = {judge::Verdict::agrees, judge::Verdict::inconclusive, judge::Verdict::inconclusive,
                                     judge::Verdict::inconclusive, judge::Verdict::disagrees};
  for (std::size_t n = all.size(); n > 0; --n) {
    all.resize(n);
    CHECK(judge::deciding(all) == &all.back());
    CHECK(all.back().verdict == verdicts[n - 1]);
  }
  CHECK(judge::deciding({}) == nullptr);
}

TEST_CASE("tolerated biases and prediction errors of a sum add linearly") {
  judge::SeedRows rows;
  for (const double v : {0.9, 1.0, 1.1, 1.0}) rows.add({v, 2.0 * v, 7.0});
  std::vector<judge::Test> points{{.predicted = {1.0, 0.1}, .tolerated_bias = 0.5},
                                  {.predicted = {2.0, 0.2}, .tolerated_bias = 0.6},
                                  {.predicted = {9.0, 5.0}, .tolerated_bias = 100.0, .precise = false}};
  const judge::Test f = gradients::sum_of_logs(rows, points, {-1.0, 1.0, 0.0}, 1.0);
  CHECK(f.precise);  // the imprecise point has weight 0
  points[1].precise = false;
  CHECK_FALSE(gradients::sum_of_logs(rows, points, {-1.0, 1.0, 0.0}, 1.0).precise);
  CHECK(f.measured.value == approx(1.0));
  CHECK(f.predicted.value == approx(1.0));
  CHECK(f.predicted.error == approx(0.3));
  CHECK(f.tolerated_bias == approx(0.1 + 0.02));  // biases 0.6 − 0.5, variances over seeds 0.08/3 − 0.02/3
}

TEST_CASE("a claim holds, holds with a condition, or fails") {
  const judge::Estimate measured{-0.56, 0.01};
  CHECK(verdict_on_claim({-0.51, 0.01}, 24, -0.5, 0.0) == judge::ClaimVerdict::holds);
  CHECK(verdict_on_claim(measured, 24, -0.5, -0.055) == judge::ClaimVerdict::holds_with_condition);
  CHECK(verdict_on_claim(measured, 24, -0.5, 0.0) == judge::ClaimVerdict::fails);
  CHECK(verdict_on_claim(measured, 24, -0.5, -0.2) == judge::ClaimVerdict::fails);
  // Noise hides the known finite-depth correction.
  CHECK(verdict_on_claim({-0.52, 0.02}, 24, -0.5, -0.07) == judge::ClaimVerdict::holds_with_condition);
  CHECK(verdict_on_claim({-0.5, 0.01}, 3, -0.5, 0.0) == judge::ClaimVerdict::not_testable);
  // The differences of 5.8 and 5.9 standard errors are on either side of 5.841, the two-sided critical t of four seeds.
  CHECK(verdict_on_claim({-0.442, 0.01}, 4, -0.5, 0.0) == judge::ClaimVerdict::holds);
  CHECK(verdict_on_claim({-0.441, 0.01}, 4, -0.5, 0.0) == judge::ClaimVerdict::fails);
}

TEST_CASE("an underpowered claim is not shown; a refuted claim fails") {
  // The detectable error with 24 seeds is (t_0.995 + t_0.95) · 0.05 = (2.807 + 1.714) · 0.05 = 0.226.
  const judge::Estimate measured{-0.51, 0.05};
  CHECK(verdict_on_claim(measured, 24, -0.5, 0.0, 0.25) == judge::ClaimVerdict::holds);
  CHECK(verdict_on_claim(measured, 24, -0.5, 0.0, 0.2) == judge::ClaimVerdict::not_shown);
  CHECK(verdict_on_claim(measured, 24, -0.5, -0.2, 0.2) == judge::ClaimVerdict::fails);
  CHECK(verdict_on_claim(measured, 24, -0.3, -0.2, 0.2) == judge::ClaimVerdict::not_shown);
  CHECK(verdict_on_claim(measured, 24, 0.0, 0.0, 0.2) == judge::ClaimVerdict::fails);
}

TEST_CASE("first_crossing finds the first sign change of a piecewise linear curve") {
  CHECK(gradients::first_crossing({0.0, 1.0, 2.0}, {3.0, 1.0, -1.0}) == approx(1.5));
  CHECK(gradients::first_crossing({0.0, 2.0}, {-1.0, 3.0}) == approx(0.5));
  CHECK(gradients::first_crossing({0.0, 1.0, 2.0, 3.0}, {1.0, -1.0, 1.0, -1.0}) == approx(0.5));
  CHECK(std::isnan(gradients::first_crossing({0.0, 1.0}, {3.0, 1.0})));
}

}  // namespace periscope
