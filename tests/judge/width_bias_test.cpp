#include "experiments/engine/judge/tolerated_bias.h"

#include <cmath>
#include <string>

#include "experiments/engine/judge/stack_verdicts.h"
#include "tests/support/doctest.h"

/// T19 for gradients: what finite width may take a squared gradient's logarithm off its limit.
namespace periscope {
namespace {

using doctest::Approx;

/// One layer of 100 features and 4 tokens.
StackSpec small() {
  StackSpec spec;
  spec.model.layers = 1;
  spec.model.width = 100;
  spec.input.tokens = 4;
  return spec;
}

const std::vector<double> w{0.0, 0.01, 0.03};

/// A stack of which only the stream's gradients are known, one logarithm of variance `variance` over 100 seeds and the
/// others of 0.01, all `off` above theory.
judge::StackVerdict judged(double variance, double off, int patterns = 0) {
  constexpr int seeds = 100;
  theory::Prediction prediction;
  Profile measured;
  const auto add = [](Profile& profile, Statistic statistic, std::vector<double> value, std::vector<double> error) {
    profile.curves[{statistic, Signal::x_out}] = {std::move(value), std::move(error)};
  };
  const std::vector<double> errors{std::sqrt(variance / seeds), 0.01, 0.01};
  add(prediction.profile, Statistic::log_grad_sq, {0.0, 0.0, 0.0}, {0.02, 0.0, 0.0});
  add(prediction.profile, Statistic::grad_sq, {1.0, 1.0, 1.0}, {0.0, 0.0, 0.0});
  add(measured, Statistic::log_grad_sq, {0.0, off, off}, errors);
  add(measured, Statistic::grad_sq, {1.0, std::exp(off), std::exp(off)}, errors);
  prediction.finite_width = w;
  prediction.replicates = 8;
  prediction.backward_samples = patterns;
  prediction.gradient_tolerance = 0.1;
  const StackSpec spec = small();
  return judge::verdicts_of({{spec, {measured, seeds}, DType::f64, prediction}}, config::AgreementOptions{}).front();
}

}  // namespace

TEST_CASE("the keys that a query sees: the harmonic mean over queries") {
  StackSpec spec = small();
  CHECK(judge::mean_keys(spec) == Approx(4.0 / (1.0 + 1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0)));
  spec.model.attention = {AttentionRule{.scores = {.window = 2}}};
  CHECK(judge::mean_keys(spec) == Approx(4.0 / (1.0 + 3.0 / 2.0)));
  spec.model.layers = 2;
  spec.model.attention.emplace_back();  // a layer without a window: that one counts
  CHECK(judge::mean_keys(spec) == Approx(4.0 / (25.0 / 12.0)));
  spec.model.attention.clear();
  spec.model.causal = false;
  CHECK(judge::mean_keys(spec) == 4.0);
}

TEST_CASE("the finite-width term of gradients: by hand") {
  StackSpec spec = small();
  spec.model.causal = false;
  const double overlaps = std::log(1.04);
  CHECK(judge::WidthBias(spec, w, {}).of_log_gradient(0, true) == Approx(100.0 / 99.0 * 0.10 + overlaps));
  CHECK(judge::WidthBias(spec, w, {}).of_log_gradient(1, true) == Approx(100.0 / 99.0 * 0.09 + overlaps));
  CHECK(judge::WidthBias(spec, w, {}).of_log_gradient(2, false) == Approx(100.0 / 99.0 * 0.07 + overlaps / 4.0));
  spec.model.norm = NormKind::layer;
  CHECK(judge::WidthBias(spec, w, {}).of_log_gradient(2, false) == Approx(100.0 / 98.0 * 0.07 + overlaps / 4.0));
  spec.model.placement = *find_placement("none");
  CHECK(judge::WidthBias(spec, w, {}).of_log_gradient(2, false) ==
        Approx(3.0 * (100.0 / 98.0 * 0.07 + overlaps / 4.0)));
  spec.model.width = 2;
  CHECK(std::isinf(judge::WidthBias(spec, w, {}).of_log_gradient(2, false)));
}

TEST_CASE(
    "longer sequences and narrower stacks are allowed more, and only a stack's own matrices of attention all of it") {
  StackSpec spec = small();
  double before = 0.0;
  for (const int tokens : {1, 4, 16, 64, 256, 1024}) {
    spec.input.tokens = tokens;
    const double term = judge::WidthBias(spec, w, {}).of_log_gradient(0, true);
    CHECK(term > before);
    CHECK(judge::WidthBias(spec, w, {}).of_log_gradient(0, false) < term);
    before = term;
  }
  for (const Weight weight : {Weight::q, Weight::k, Weight::v, Weight::o}) CHECK(judge::is_of_attention(weight));
  for (const Weight weight : {Weight::gate, Weight::up, Weight::down}) CHECK_FALSE(judge::is_of_attention(weight));
}

TEST_CASE("a matrix of layer i is allowed what the stream is allowed at depth 2i, below its layer") {
  StackSpec spec = small();
  spec.model.layers = 3;
  const std::vector<double> at_depth{0.0, 0.01, 0.03, 0.04, 0.08, 0.09, 0.2};
  theory::Prediction prediction;
  Profile measured;
  const std::vector<double> zero(3, 0.0);
  const std::vector<double> one(3, 1.0);
  for (const Weight weight : {Weight::down, Weight::o}) {
    for (Profile* profile : {&prediction.profile, &measured}) {
      profile->curves[{Statistic::log_grad_sq, weight}] = {zero, zero};
      profile->curves[{Statistic::grad_sq, weight}] = {one, zero};
    }
  }
  prediction.finite_width = at_depth;
  prediction.replicates = 8;
  prediction.gradient_tolerance = 0.1;
  const judge::StackVerdict a =
      judge::verdicts_of({{spec, {measured, 16}, DType::f64, prediction}}, {.finite_width_gradient = 0.5}).front();
  REQUIRE(a.tests.size() == 6);
  for (const judge::Test& test : a.tests) {
    CAPTURE(test.name());
    const auto depth = static_cast<std::size_t>(2 * test.index);
    // Beyond the term there are the variance's half, which is 0 here, and rounding.
    CHECK(test.tolerated_bias ==
          Approx(0.5 * judge::WidthBias(spec, at_depth, {}).of_log_gradient(depth, test.weight == Weight::o))
              .epsilon(1e-6));
  }
}

TEST_CASE("where one gradient fluctuates by a factor e, first order in 1/width says nothing about any") {
  CHECK(judged(0.01, 0.0).verdict == judge::Verdict::agrees);
  CHECK(judged(0.01, 1.0).verdict == judge::Verdict::disagrees);
  CHECK(judged(1.9, 1.0).verdict == judge::Verdict::disagrees);
  const judge::StackVerdict wild = judged(2.1, 1.0);
  CHECK(wild.verdict == judge::Verdict::inconclusive);
  CHECK(wild.rejected == 0);
  CHECK(wild.reason.find("no bound on its bias") != std::string::npos);
  // The mean of 8 heads' patterns has a variance of 0.02² · 38000 / 8 = 1.9, of 44000 patterns 2.2.
  CHECK(judged(0.01, 1.0, 38000).verdict == judge::Verdict::disagrees);
  CHECK(judged(0.01, 1.0, 44000).verdict == judge::Verdict::inconclusive);
}

TEST_CASE(
    "against the limit a forward statistic is allowed its depth's factor, its tokens' overlaps and the run's "
    "rounding") {
  StackSpec spec = small();
  spec.model.layers = 2;
  spec.model.causal = false;
  const std::vector<double> at_depth{0.0, 0.011, 0.013, 0.027, 0.05};
  const double rounding = 0.002;
  theory::Prediction prediction;
  Profile measured;
  for (Profile* profile : {&prediction.profile, &measured}) {
    for (const Statistic statistic : {Statistic::second_moment, Statistic::token_cosine}) {
      profile->curves[{statistic, Signal::x_out}] = {std::vector(5, 0.5), std::vector(5, 0.0)};
      profile->curves[{statistic, Signal::f_out}] = {std::vector(4, 0.5), std::vector(4, 0.0)};
    }
  }
  prediction.finite_width = at_depth;
  prediction.replicates = 8;
  for (const bool norms : {true, false}) {
    if (!norms) spec.model.placement = *find_placement("none");
    const judge::StackVerdict a = judge::verdicts_of({{spec, {measured, 16}, DType::f64, prediction, rounding}},
                                                     {.finite_width = 0.3, .finite_width_cosine = 0.7})
                                      .front();
    REQUIRE(a.tests.size() == 18);
    for (const judge::Test& test : a.tests) {
      CAPTURE(test.name());
      const bool module = test.signal == Signal::f_out;
      const bool attention = module && test.index % 2 == 0;
      const bool cosine = test.statistic == Statistic::token_cosine;
      const int behind = test.index + (module ? 1 : 0);
      // Without norms a gated MLP squares what is in front of it.
      const double strength = !norms ? 4.0 * std::pow(2.0, behind / 2) : attention ? 1.0 : 0.25;
      const double overlaps = behind > 0 ? strength * std::log(1.04) : 0.0;
      double w_here = at_depth[static_cast<std::size_t>(behind)];
      if (cosine) w_here = std::max(w_here, 0.01);  // 1/D
      const double constant = cosine || attention ? 0.7 : 0.3;
      double term = constant * (w_here + overlaps);
      if (!norms && !cosine) term = std::exp(term) - 1.0;  // a factor on what follows
      CHECK(test.tolerated_bias == Approx((term + rounding) * (cosine ? 1.0 : 0.5)).epsilon(1e-9));
    }
  }
  prediction.exact_at_width = true;
  prediction.spread = prediction.profile;
  const judge::StackVerdict exact =
      judge::verdicts_of({{spec, {measured, 16}, DType::f64, prediction, rounding}}, {}).front();
  REQUIRE(exact.tests.size() == 18);
  for (const judge::Test& test : exact.tests) {
    const double scale = test.statistic == Statistic::token_cosine ? 1.0 : 0.5;
    CHECK(test.tolerated_bias == Approx(rounding * scale).epsilon(1e-9));
  }
}

}  // namespace periscope
