#include <cmath>
#include <string>
#include <utility>

#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/judge/stack_verdicts.h"
#include "sim/numerics/larger.h"
#include "tests/support/doctest.h"

/// Verdicts and their parts, compared with numbers computed by hand.
namespace periscope {
namespace {

/// A curve with one value: measured in f64 with 16 seeds, predicted with 8 replicates.
struct OneNumber {
  Statistic statistic;
  Signal signal;
  double measured, measured_error, predicted, predicted_error;
  double finite_width = 0.0;

  [[nodiscard]] judge::StackVerdict judged() const {
    StackSpec spec;
    spec.model.layers = 1;
    Profile profile;
    profile.curves[{statistic, signal}] = {{measured}, {measured_error}};
    theory::Prediction prediction;
    prediction.profile.curves[{statistic, signal}] = {{predicted}, {predicted_error}};
    prediction.finite_width.assign(3, finite_width);
    prediction.replicates = 8;
    return judge::verdicts_of({{spec, {profile, 16}, DType::f64, prediction}},
                              {.familywise_error = 0.01, .finite_width = 0.5, .finite_width_cosine = 1.0})
        .front();
  }
};

constexpr std::size_t depths = 5;

/// A profile whose second moment is `value` ± `error` at every depth of the stream.
Profile flat_profile(double value, double error) {
  Profile profile;
  profile.curves[{Statistic::second_moment, Signal::x_out}] = {std::vector<double>(depths, value),
                                                               std::vector<double>(depths, error)};
  return profile;
}

/// Predicts second moments of exactly 1, at infinite width.
theory::Prediction flat_prediction() {
  theory::Prediction prediction;
  prediction.profile = flat_profile(1.0, 0.0);
  prediction.finite_width.assign(depths, 0.0);
  prediction.replicates = 8;
  return prediction;
}

judge::StackVerdict judge_one(const Profile& measured, const theory::Prediction& prediction, int seeds = 16) {
  const StackSpec spec;
  return judge::verdicts_of({{spec, {measured, seeds}, DType::f64, prediction}},
                            {.familywise_error = 0.01, .finite_width = 0.25})
      .front();
}

}  // namespace

TEST_CASE("cosines are compared on an absolute scale, also at -1, 0 and 1") {
  // The tolerated bias 0.05 is absolute, so the excess is (0.1 − 0.05)/0.02 = 2.5. This is below 2.947, the critical
  // value of t with 15 degrees of freedom at level 1 %.
  for (const double sign : {-1.0, 1.0}) {
    const OneNumber edge{Statistic::token_cosine, Signal::x_out, sign * 0.9, 0.02, sign, 0.0, 0.05};
    const judge::StackVerdict a = edge.judged();
    CHECK(a.tests.at(0).tolerated_bias == approx(0.05).epsilon(1e-9));
    CHECK(a.tests.at(0).excess() == approx(2.5).epsilon(1e-6));
    CHECK(a.tests.at(0).scale == 1.0);
    CHECK(a.rejected == 0);
  }
  const OneNumber zero{Statistic::token_cosine, Signal::x_out, 0.11, 0.02, 0.0, 0.0, 0.05};
  CHECK(zero.judged().tests.at(0).excess() == approx(3.0).epsilon(1e-6));
  CHECK(zero.judged().verdict == judge::Verdict::disagrees);
  // Without noise, a cosine of exactly 1 (equal tokens) agrees and 0.99 disagrees.
  const OneNumber exact{Statistic::token_cosine, Signal::x_out, 1.0, 0.0, 1.0, 0.0};
  CHECK(exact.judged().verdict == judge::Verdict::agrees);
  const OneNumber near{Statistic::token_cosine, Signal::x_out, 0.99, 0.0, 1.0, 0.0};
  CHECK(near.judged().verdict == judge::Verdict::disagrees);
  CHECK(std::isinf(near.judged().tests.at(0).excess()));
}

TEST_CASE("errors add in quadrature, with Welch-Satterthwaite degrees of freedom") {
  // Error √(0.3² + 0.4²) = 0.5; variance shares 0.36 and 0.64; degrees of freedom 1/(0.36²/15 + 0.64²/7) = 14.891.
  const judge::Test test = OneNumber{Statistic::second_moment, Signal::x_out, 1.3, 0.3, 1.0, 0.4}.judged().tests.at(0);
  CHECK(test.error() == approx(0.5).epsilon(1e-12));
  CHECK(test.z() == approx(0.6).epsilon(1e-12));
  CHECK(test.degrees() == approx(14.891).epsilon(1e-4));
  // With a single error term, 16 seeds have 15 degrees of freedom and 8 replicates have 7.
  const judge::Test seeds = OneNumber{Statistic::second_moment, Signal::x_out, 1.3, 0.3, 1.0, 0.0}.judged().tests.at(0);
  CHECK(seeds.degrees() == approx(15.0).epsilon(1e-12));
  const judge::StackVerdict replicates =
      OneNumber{Statistic::second_moment, Signal::x_out, 1.3, 0.0, 1.0, 0.1}.judged();
  CHECK(replicates.tests.at(0).degrees() == approx(7.0).epsilon(1e-12));
  CHECK(replicates.worst_test().critical == approx(3.4995).epsilon(1e-4));  // t with 7 degrees of freedom, level 1 %
  CHECK(replicates.rejected == 0);
  const judge::StackVerdict beyond = OneNumber{Statistic::second_moment, Signal::x_out, 1.36, 0.0, 1.0, 0.1}.judged();
  CHECK(beyond.rejected == 1);  // z = 3.6; critical t: 3.4995 (6 degrees of freedom: 3.707, 8: 3.355)
  CHECK(OneNumber{Statistic::second_moment, Signal::x_out, 1.34, 0.0, 1.0, 0.1}.judged().rejected == 0);
}

TEST_CASE("the second stream of ResiDual is compared too") {
  const judge::StackVerdict a = OneNumber{Statistic::second_moment, Signal::r_out, 1.1, 0.01, 1.0, 0.0}.judged();
  CHECK(a.verdict == judge::Verdict::disagrees);
  CHECK(a.worst_test().name() == "second_moment r_out[0]");
  CHECK(a.tests.at(0).z() == approx(10.0));
  CHECK(OneNumber{Statistic::second_moment, Signal::r_out, 1.01, 0.01, 1.0, 0.0}.judged().verdict ==
        judge::Verdict::agrees);
}

TEST_CASE("Sidak levels and critical values match tables") {
  CHECK(judge::sidak_level(0.01, 1) == approx(0.01).epsilon(1e-12));
  CHECK(judge::sidak_level(0.05, 10) == approx(0.0051162).epsilon(1e-5));  // 1 − 0.95^0.1
  CHECK(judge::sidak_level(0.01, 5) == approx(0.0020080).epsilon(1e-4));   // 1 − 0.99^0.2
  CHECK(judge::critical_excess(15, 0.01) == approx(2.9467).epsilon(1e-4));
  CHECK(judge::critical_excess(7, 0.05) == approx(2.3646).epsilon(1e-4));
  CHECK(judge::critical_excess(1, 0.05) == approx(12.7062).epsilon(1e-5));
}

TEST_CASE("means over seeds have standard errors with n - 1 degrees of freedom") {
  // Values 1, 2, 6: mean 3, sum of squares 4 + 1 + 9 = 14, variance 14/2, standard error √(7/3).
  const judge::Estimate mean = judge::mean_over_seeds({1.0, 2.0, 6.0});
  CHECK(mean.value == approx(3.0).epsilon(1e-12));
  CHECK(mean.error == approx(std::sqrt(7.0 / 3.0)).epsilon(1e-12));
  CHECK(std::isnan(judge::mean_over_seeds({4.0}).error));
  CHECK(std::isnan(judge::mean_over_seeds({}).value));
  CHECK(std::isnan(judge::mean_over_seeds({1.0, std::nan(""), 2.0}).value));
  // 2a − b over the rows (a, b) is 0, 1, −4: mean −1, sum of squares 1 + 4 + 9.
  judge::SeedRows rows;
  rows.add({1.0, 2.0});
  rows.add({3.0, 5.0});
  rows.add({2.0, 8.0});
  const judge::Estimate sum = rows.sum({2.0, -1.0});
  CHECK(sum.value == approx(-1.0).epsilon(1e-12));
  CHECK(sum.error == approx(std::sqrt(7.0 / 3.0)).epsilon(1e-12));
  CHECK(rows.curve().value == std::vector<double>{2.0, 5.0});
  CHECK(rows.curve().standard_error[0] == approx(std::sqrt(1.0 / 3.0)).epsilon(1e-12));
  CHECK(rows.curve().standard_error[1] == approx(std::sqrt(3.0)).epsilon(1e-12));  // variance (9 + 0 + 9)/2, 3 rows
}

TEST_CASE("larger() propagates NaN from either argument") {
  CHECK(std::isnan(larger(1.0, std::nan(""))));
  CHECK(std::isnan(larger(std::nan(""), 1.0)));
  CHECK(larger(1.0, 2.0) == 2.0);
}

TEST_CASE("out_of_range names the predicted value or scale that overflows or underflows the dtype") {
  const auto reason = [](double value, DType dtype) {
    Profile predicted;
    predicted.curves[{Statistic::second_moment, Signal::x_out}] = {{1.0, value}, {0.0, 0.0}};
    return judge::out_of_range(StackSpec(), predicted, dtype);
  };
  CHECK(reason(1e-139, DType::f64).empty());
  CHECK(reason(1e-141, DType::f64) == "predicted second_moment x_out[1] = 1e-141: too small for f64");
  CHECK(reason(1e141, DType::f64) == "predicted second_moment x_out[1] = 1e+141: too large for f64");
  CHECK(reason(1e139, DType::f64).empty());
  CHECK(reason(1e-69, DType::f32).empty());
  CHECK(reason(1e-71, DType::f32) == "predicted second_moment x_out[1] = 1e-71: too small for f32");
  CHECK(reason(0.0, DType::f32).empty());  // measured and predicted are exactly 0
  // The square of a scale underflows or overflows before the scale itself.
  StackSpec spec;
  spec.model.gamma = 1e-200;
  CHECK(judge::out_of_range(spec, {}, DType::f64) == "model.gamma = 1e-200: its square is too small for f64");
  spec.model.gamma = 0.0;
  CHECK(judge::out_of_range(spec, {}, DType::f64).empty());
  spec.init.std = 1e200;
  CHECK(judge::out_of_range(spec, {}, DType::f64) ==
        "the standard deviation of q = 1e+200: its square is too large for f64");
}

TEST_CASE("stacks with three seeds or without a prediction are not checked") {
  CHECK(judge_one(flat_profile(9.0, 0.01), flat_prediction(), 3).verdict == judge::Verdict::not_checked);
  theory::Prediction unsupported;
  unsupported.unsupported = "because";
  CHECK(judge_one(flat_profile(9.0, 0.01), unsupported).reason == "because");
}

TEST_CASE("a NaN prediction of a measured value is inconclusive, and the reason names it") {
  const double nan = std::nan("");
  theory::Prediction prediction = flat_prediction();
  prediction.profile.curves[{Statistic::second_moment, Signal::x_out}].value[3] = nan;
  const judge::StackVerdict signal = judge_one(flat_profile(1.0, 0.01), prediction);
  CHECK(signal.verdict == judge::Verdict::inconclusive);
  CHECK(signal.reason.starts_with("second_moment x_out[3]: "));

  // A NaN prediction of a log gradient, or of the score share of attention, is also inconclusive.
  const auto with_gradients = [] {
    Profile profile = flat_profile(1.0, 0.01);
    for (const Statistic s : {Statistic::grad_sq, Statistic::log_grad_sq}) {
      const double value = s == Statistic::grad_sq ? 1.0 : 0.0;
      profile.curves[{s, Signal::x_out}] = {std::vector<double>(5, value), std::vector<double>(5, 0.01)};
      profile.curves[{s, Weight::down}] = {std::vector<double>(2, value), std::vector<double>(2, 0.01)};
    }
    profile.curves[{Statistic::score_share, Signal::A_out}] = {{0.5, std::nan(""), 0.5, std::nan("")},
                                                               std::vector<double>(4, 0.005)};
    return profile;
  };
  const Profile measured = with_gradients();
  prediction = flat_prediction();
  prediction.profile = with_gradients();
  prediction.gradient_tolerance = 0.1;
  const theory::Prediction right = prediction;
  // The score shares of MLP sublayers are NaN in both profiles and are therefore not compared.
  CHECK(judge_one(measured, prediction).verdict == judge::Verdict::agrees);
  const std::pair<Statistic, CurvePlace> keys[] = {
      {Statistic::score_share, Signal::A_out}, {Statistic::grad_sq, Signal::x_out}, {Statistic::grad_sq, Weight::down}};
  const std::string names[] = {"score_share A_out[2]: ", "grad_sq x_out[1]: ", "grad_sq down[1]: "};
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(names[i]);
    prediction = right;
    prediction.profile.curves[keys[i]].value[i == 0 ? 2 : 1] = nan;
    CHECK(judge_one(measured, prediction).reason.starts_with(names[i]));
  }
}

TEST_CASE("a measured statistic without prediction is inconclusive, and the reason names it") {
  theory::Prediction prediction = flat_prediction();
  Profile measured = flat_profile(1.0, 0.01);
  measured.curves[{Statistic::variance, Signal::x_out}] = measured.curves[{Statistic::second_moment, Signal::x_out}];
  CHECK(judge_one(measured, prediction).reason.starts_with("variance x_out[0]: "));
}

TEST_CASE("a stack without compared statistics is inconclusive") {
  Profile kurtosis;  // verdicts ignore kurtosis
  kurtosis.curves[{Statistic::kurtosis, Signal::x_out}] = {std::vector<double>(5, 3.0), std::vector<double>(5, 0.1)};
  for (const Profile& measured : {Profile{}, kurtosis}) {
    const judge::StackVerdict a = judge_one(measured, flat_prediction());
    CHECK(a.verdict == judge::Verdict::inconclusive);
    CHECK_FALSE(a.reason.empty());
  }
}

}  // namespace periscope
