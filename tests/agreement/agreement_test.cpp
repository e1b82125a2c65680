#include "experiments/common/agreement.h"

#include <doctest/doctest.h>

#include <cmath>

#include "experiments/common/measure_stack.h"
#include "experiments/common/token_ids.h"
#include "sim/backends.h"
#include "theory/finite_width.h"

namespace periscope {
namespace {

/// A profile of `depths` stream depths whose second moment is `value` ± `error`.
Profile flat_profile(std::size_t depths, double value, double error) {
  Profile profile;
  profile.curves[{Statistic::second_moment, Site::x_out}] = {std::vector<double>(depths, value),
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

Agreement judge_one(const Profile& measured, const theory::Prediction& prediction, int seeds = 16) {
  const StackSpec spec;
  return judge({{spec, measured, seeds, 0, DType::f64, prediction}}, {.familywise_error = 0.01, .finite_width = 0.25})
      .front();
}

}  // namespace

TEST_CASE("a difference within the noise agrees, one far beyond it does not") {
  const theory::Prediction one = flat_prediction(5, 1.0, 0.0, 0.0);
  CHECK(judge_one(flat_profile(5, 1.01, 0.01), one).verdict == Verdict::agrees);
  const Agreement far = judge_one(flat_profile(5, 1.2, 0.01), one);
  CHECK(far.verdict == Verdict::disagrees);
  CHECK(far.rejected == 5);
  CHECK(far.cells[0].z() == doctest::Approx(20.0));
}

TEST_CASE("the limit is Student's t at Sidak's level") {
  // 5 cells, familywise 0.01: 0.2008 % each, two-sided; t with 15 degrees of freedom has its 99.8996 % quantile there.
  const Agreement a = judge_one(flat_profile(5, 1.0, 0.01), flat_prediction(5, 1.0, 0.0, 0.0));
  CHECK(a.critical == doctest::Approx(3.730).epsilon(0.001));
}

TEST_CASE("the finite-width term is free, and nothing beyond it") {
  const theory::Prediction wide = flat_prediction(5, 2.0, 0.0, 0.1);  // allowance 0.25 · 0.1 · 2 = 0.05
  const Agreement at_edge = judge_one(flat_profile(5, 2.05, 1e-6), wide);
  CHECK(at_edge.verdict == Verdict::agrees);
  CHECK(at_edge.cells[0].excess() <= 1e-6);
  CHECK(judge_one(flat_profile(5, 2.0501, 1e-6), wide).verdict == Verdict::disagrees);
}

TEST_CASE("what cannot be judged is not checked") {
  const theory::Prediction one = flat_prediction(5, 1.0, 0.0, 0.0);
  CHECK(judge_one(flat_profile(5, 9.0, 0.01), one, 3).verdict == Verdict::not_checked);
  theory::Prediction refused;
  refused.refusal = "because";
  CHECK(judge_one(flat_profile(5, 9.0, 0.01), refused).reason == "because");
}

TEST_CASE("an exact difference without any noise is rejected") {
  CHECK(judge_one(flat_profile(5, 1.1, 0.0), flat_prediction(5, 1.0, 0.0, 0.0)).verdict == Verdict::disagrees);
  CHECK(judge_one(flat_profile(5, 1.0, 0.0), flat_prediction(5, 1.0, 0.0, 0.0)).verdict == Verdict::agrees);
}

TEST_CASE("real stacks agree with the theory, and a planted wrong constant is caught") {
  const auto backend = make_backend("cpu");
  RunOptions run;
  run.dtype = DType::f64;
  for (const char* placement : {"pre", "peri", "post", "b-only", "lns", "depth-scaled"}) {
    CAPTURE(placement);
    StackSpec spec;
    spec.model = {.layers = 4, .width = 128, .heads = 8, .kv_heads = 4, .head_dim = 16, .mlp_width = 256};
    spec.model.placement = *find_placement(placement);
    spec.init.scheme = InitScheme::lecun;
    spec.input.tokens = 16;
    constexpr int seeds = 48;  // fewer leave the MLP's output inconclusive
    const Profile measured = measure_stack(*backend, spec, run, seeds, [](const Reading&) {}).profile();
    theory::Prediction prediction = theory::predict(spec, {}, {.tolerance = 0.003});
    theory::predict_at_width(spec, {}, {.seeds = seeds}, prediction);
    const auto verdict = [&] {
      return judge({{spec, measured, seeds, 0, DType::f64, prediction}}, AgreementOptions{}).front().verdict;
    };
    CHECK(verdict() == Verdict::agrees);
    // As if T5 forgot that SwiGLU's gate is not linear: its branch comes out a quarter too strong.
    for (std::size_t l = 1; l < 8; l += 2) {
      prediction.profile.curves[{Statistic::second_moment, Site::f_out}].value[l] *= 1.25;
    }
    CHECK(verdict() == Verdict::disagrees);
  }
}

TEST_CASE("gradients of real stacks agree with the theory, and a missing score path is caught") {
  const auto backend = make_backend("cpu");
  RunOptions run;
  run.dtype = DType::f64;
  run.backward = true;
  for (const char* placement : {"pre", "peri", "residual-dual"}) {
    CAPTURE(placement);
    StackSpec spec;
    spec.model = {.layers = 3, .width = 128, .heads = 8, .kv_heads = 4, .head_dim = 16, .mlp_width = 256};
    spec.model.placement = *find_placement(placement);
    spec.init.scheme = InitScheme::lecun;
    spec.input.tokens = 12;
    constexpr int seeds = 24;
    const Profile measured = measure_stack(*backend, spec, run, seeds, [](const Reading&) {}).profile();
    theory::PredictionOptions options{.tolerance = 0.003};
    options.labels = distinct_label_ids(spec, run.seed, seeds);
    theory::Prediction prediction = theory::predict(spec, {}, options);
    const auto verdict = [&] {
      return judge({{spec, measured, seeds, 0, DType::f64, prediction}}, AgreementOptions{}).front().verdict;
    };
    CHECK(verdict() != Verdict::disagrees);
    const theory::Prediction right = prediction;
    for (double& v : prediction.profile.weight_curves[{Statistic::log_grad_sq, Weight::q}].value) v -= 1.0;
    CHECK(verdict() == Verdict::disagrees);
    // As if queries alone made the score path.
    prediction = right;
    for (double& v : prediction.profile.curves[{Statistic::score_share, Site::A_out}].value) v = v / (2.0 - v);
    CHECK(verdict() == Verdict::disagrees);
  }
}

}  // namespace periscope
