#include "experiments/engine/judge/stack_verdicts.h"

#include <cmath>
#include <string>
#include <utility>

#include "tests/support/doctest.h"

namespace periscope {
namespace {

/// A profile of `depths` stream depths whose second moment is `value` ± `error`.
Profile flat_profile(std::size_t depths, double value, double error) {
  Profile profile;
  profile.curves[{Statistic::second_moment, Signal::x_out}] = {std::vector<double>(depths, value),
                                                               std::vector<double>(depths, error)};
  return profile;
}

theory::Prediction flat_prediction(std::size_t depths, double value, double error, double finite_width) {
  theory::Prediction prediction;
  prediction.profile = flat_profile(depths, value, error);
  prediction.finite_width.assign(depths, finite_width);
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

TEST_CASE("three seeds, or no prediction: not checked") {
  const theory::Prediction one = flat_prediction(5, 1.0, 0.0, 0.0);
  CHECK(judge_one(flat_profile(5, 9.0, 0.01), one, 3).verdict == judge::Verdict::not_checked);
  theory::Prediction refused;
  refused.unsupported = "because";
  CHECK(judge_one(flat_profile(5, 9.0, 0.01), refused).reason == "because");
}

TEST_CASE("a NaN prediction of a measured value is inconclusive and named") {
  const double nan = std::nan("");
  theory::Prediction prediction = flat_prediction(5, 1.0, 0.0, 0.0);
  prediction.profile.curves[{Statistic::second_moment, Signal::x_out}].value[3] = nan;
  const judge::StackVerdict signal = judge_one(flat_profile(5, 1.0, 0.01), prediction);
  CHECK(signal.verdict == judge::Verdict::inconclusive);
  CHECK(signal.reason.starts_with("second_moment x_out[3]: "));

  // Gradients, which are compared by their logarithms, and the score share of attention.
  const auto with_gradients = [] {
    Profile profile = flat_profile(5, 1.0, 0.01);
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
  prediction = flat_prediction(5, 1.0, 0.0, 0.0);
  prediction.profile = with_gradients();
  prediction.gradient_tolerance = 0.1;
  const theory::Prediction right = prediction;
  // The score shares of MLP sublayers are NaN in both profiles and not compared.
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

TEST_CASE("a measured statistic without prediction is inconclusive and named") {
  theory::Prediction prediction = flat_prediction(5, 1.0, 0.0, 0.0);
  Profile measured = flat_profile(5, 1.0, 0.01);
  measured.curves[{Statistic::variance, Signal::x_out}] = measured.curves[{Statistic::second_moment, Signal::x_out}];
  CHECK(judge_one(measured, prediction).reason.starts_with("variance x_out[0]: "));
}

TEST_CASE("a stack without compared statistics is inconclusive") {
  const theory::Prediction one = flat_prediction(5, 1.0, 0.0, 0.0);
  Profile elsewhere;  // verdicts ignore kurtosis
  elsewhere.curves[{Statistic::kurtosis, Signal::x_out}] = {std::vector<double>(5, 3.0), std::vector<double>(5, 0.1)};
  for (const Profile& measured : {Profile{}, elsewhere}) {
    const judge::StackVerdict a = judge_one(measured, one);
    CHECK(a.verdict == judge::Verdict::inconclusive);
    CHECK_FALSE(a.reason.empty());
  }
}

}  // namespace periscope
