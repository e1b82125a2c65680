#include "experiments/engine/judge/tolerated_bias.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "experiments/engine/judge/stack_verdicts.h"
#include "tests/support/doctest.h"

/// Tolerated bias from finite width (T19).
namespace periscope {
namespace {

/// One layer of 100 features and 4 tokens.
StackSpec small() {
  StackSpec spec;
  spec.model.layers = 1;
  spec.model.width = 100;
  spec.input.tokens = 4;
  return spec;
}

const std::vector<double> w{0.0, 0.01, 0.03};

/// Returns the verdict on stream gradients at three depths over 100 seeds. The log gradient at the first depth equals
/// the theory and has variance `variance`; the others are `offset` above the theory and have variance 0.01.
judge::StackVerdict judged(double variance, double offset, int patterns = 0) {
  constexpr int seeds = 100;
  theory::Prediction prediction;
  Profile measured;
  const auto add = [](Profile& profile, Statistic statistic, std::vector<double> value, std::vector<double> error) {
    profile.curves[{statistic, Signal::x_out}] = {std::move(value), std::move(error)};
  };
  const std::vector<double> errors{std::sqrt(variance / seeds), 0.01, 0.01};
  add(prediction.profile, Statistic::log_grad_sq, {0.0, 0.0, 0.0}, {0.02, 0.0, 0.0});
  add(prediction.profile, Statistic::grad_sq, {1.0, 1.0, 1.0}, {0.0, 0.0, 0.0});
  add(measured, Statistic::log_grad_sq, {0.0, offset, offset}, errors);
  add(measured, Statistic::grad_sq, {1.0, std::exp(offset), std::exp(offset)}, errors);
  prediction.finite_width = w;
  prediction.replicates = 8;
  prediction.backward_samples = patterns;
  prediction.gradient_tolerance = 0.1;
  const StackSpec spec = small();
  return judge::verdicts_of({{spec, {measured, seeds}, DType::f64, prediction}}, config::AgreementOptions{}).front();
}

}  // namespace

TEST_CASE("the mean number of keys is the harmonic mean over queries") {
  StackSpec spec = small();
  CHECK(judge::mean_keys(spec) == approx(4.0 / (1.0 + 1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0)));
  spec.model.attention = {AttentionRule{.scores = {.window = 2}}};
  CHECK(judge::mean_keys(spec) == approx(4.0 / (1.0 + 3.0 / 2.0)));
  spec.model.layers = 2;
  spec.model.attention.emplace_back();  // the layer without a window has the largest mean
  CHECK(judge::mean_keys(spec) == approx(4.0 / (25.0 / 12.0)));
  spec.model.attention.clear();
  spec.model.causal = false;
  CHECK(judge::mean_keys(spec) == 4.0);
}

TEST_CASE("the finite-width term of gradients matches hand-computed values") {
  StackSpec spec = small();
  spec.model.causal = false;
  const double overlaps = std::log(1.04);
  CHECK(judge::WidthBias(spec, w, {}).of_log_gradient(0, true) == approx(100.0 / 99.0 * 0.10 + overlaps));
  CHECK(judge::WidthBias(spec, w, {}).of_log_gradient(1, true) == approx(100.0 / 99.0 * 0.09 + overlaps));
  CHECK(judge::WidthBias(spec, w, {}).of_log_gradient(2, false) == approx(100.0 / 99.0 * 0.07 + overlaps / 4.0));
  spec.model.norm = NormKind::layer;
  CHECK(judge::WidthBias(spec, w, {}).of_log_gradient(2, false) == approx(100.0 / 98.0 * 0.07 + overlaps / 4.0));
  spec.model.placement = *find_placement("none");
  CHECK(judge::WidthBias(spec, w, {}).of_log_gradient(2, false) ==
        approx(3.0 * (100.0 / 98.0 * 0.07 + overlaps / 4.0)));
  spec.model.width = 2;
  CHECK(std::isinf(judge::WidthBias(spec, w, {}).of_log_gradient(2, false)));
}

TEST_CASE("the finite-width term of signals matches hand-computed values") {
  StackSpec spec = small();
  spec.model.causal = false;
  const config::AgreementOptions options{.finite_width = 0.3, .finite_width_cosine = 0.7};
  const std::vector<double> widths{0.0, 0.02, 0.03};
  const double overlaps = std::log(1.04);
  const auto term = [&](Statistic statistic, Signal signal, std::size_t i) {
    return judge::WidthBias(spec, widths, options).of_signal(statistic, signal, i);
  };
  using enum Statistic;
  CHECK(term(second_moment, Signal::x_out, 0) == 0.0);
  CHECK(term(token_cosine, Signal::x_out, 0) == approx(0.7 * 0.01));  // the factor is at least 1/D = 0.01
  CHECK(term(second_moment, Signal::x_out, 1) == approx(0.3 * (0.02 + overlaps / 4.0)));
  CHECK(term(token_cosine, Signal::x_out, 1) == approx(0.7 * (0.02 + overlaps / 4.0)));
  CHECK(term(second_moment, Signal::f_out, 0) == approx(0.7 * (0.02 + overlaps)));  // attention: overlaps count fully
  CHECK(term(second_moment, Signal::f_out, 1) == approx(0.3 * (0.03 + overlaps / 4.0)));
  spec.model.placement = *find_placement("none");
  CHECK(term(second_moment, Signal::x_out, 1) == approx(std::expm1(0.3 * (0.02 + 4.0 * overlaps))));
  CHECK(term(second_moment, Signal::x_out, 2) == approx(std::expm1(0.3 * (0.03 + 8.0 * overlaps))));  // gated MLP: 4·2
  CHECK(term(token_cosine, Signal::x_out, 2) == approx(0.7 * (0.03 + 8.0 * overlaps)));
  spec.model.mlp = MlpKind::relu;
  CHECK(term(second_moment, Signal::x_out, 2) == approx(std::expm1(0.3 * (0.03 + 4.0 * overlaps))));
}

TEST_CASE("the finite-width term grows with sequence length and is larger for attention matrices") {
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

TEST_CASE("gradients and shares have the finite-width term of their depth, which is 2i for a matrix of layer i") {
  StackSpec spec = small();
  spec.model.layers = 2;
  const std::vector<double> at_depth{0.0, 0.011, 0.013, 0.027, 0.05};
  theory::Prediction prediction;
  Profile measured;
  for (Profile* profile : {&prediction.profile, &measured}) {
    const auto add_gradient = [&](CurvePlace place, std::size_t size) {
      profile->curves[{Statistic::grad_sq, place}] = {std::vector(size, 1.0), std::vector(size, 0.0)};
      profile->curves[{Statistic::log_grad_sq, place}] = {std::vector(size, 0.0), std::vector(size, 0.0)};
    };
    add_gradient(Signal::x_out, 5);
    add_gradient(Weight::down, 2);
    add_gradient(Weight::o, 2);
    profile->curves[{Statistic::score_share, Signal::A_out}] = {{0.25, NAN, 0.25, NAN}, std::vector(4, 0.0)};
  }
  prediction.finite_width = at_depth;
  prediction.replicates = 8;
  prediction.gradient_tolerance = 0.1;
  const judge::StackVerdict a =
      judge::verdicts_of({{spec, {measured, 16}, DType::f64, prediction}}, {.finite_width_gradient = 0.5}).front();
  REQUIRE(a.tests.size() == 5 + 2 + 2 + 2);
  for (const judge::Test& test : a.tests) {
    CAPTURE(test.name());
    const bool share = test.statistic == Statistic::score_share;
    const bool matrix = test.name().find("x_out") == std::string::npos && !share;
    const auto depth = static_cast<std::size_t>(matrix ? 2 * test.index : test.index);
    const double term =
        0.5 *
        judge::WidthBias(spec, at_depth, {}).of_log_gradient(depth, share || (matrix && test.weight == Weight::o));
    CHECK(test.tolerated_bias == approx(share ? 0.25 * 0.75 * term + judge::share_accuracy : term).epsilon(1e-6));
  }
}

TEST_CASE("a gradient that fluctuates by a factor e has no first-order bound") {
  CHECK(judged(0.01, 0.0).verdict == judge::Verdict::agrees);
  CHECK(judged(0.01, 1.0).verdict == judge::Verdict::disagrees);
  CHECK(judged(1.9, 1.0).verdict == judge::Verdict::disagrees);
  const judge::StackVerdict wild = judged(2.1, 1.0);
  CHECK(wild.verdict == judge::Verdict::inconclusive);
  CHECK(wild.rejected == 0);
  CHECK(wild.reason.find("no bound on the prediction's bias") != std::string::npos);
  // The mean of one pattern per head (8 heads) has variance 0.02² · 38000 / 8 = 1.9; with 44000 patterns, 2.2.
  CHECK(judged(0.01, 1.0, 38000).verdict == judge::Verdict::disagrees);
  CHECK(judged(0.01, 1.0, 44000).verdict == judge::Verdict::inconclusive);
}

TEST_CASE("tolerated bias of forward statistics: rounding adds to the finite-width term, which grows with depth") {
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
  const auto judge_with = [&](double rounding_error) {
    return judge::verdicts_of({{spec, {measured, 16}, DType::f64, prediction, rounding_error}},
                              {.finite_width = 0.3, .finite_width_cosine = 0.7})
        .front();
  };
  for (const bool norms : {true, false}) {
    if (!norms) spec.model.placement = *find_placement("none");
    const judge::StackVerdict a = judge_with(rounding);
    const judge::StackVerdict exact = judge_with(0.0);
    REQUIRE(a.tests.size() == 18);
    std::map<std::pair<Statistic, Signal>, double> before;
    for (std::size_t i = 0; i < a.tests.size(); ++i) {
      const judge::Test& test = a.tests[i];
      CAPTURE(test.name());
      const bool cosine = test.statistic == Statistic::token_cosine;
      const double scale = cosine ? 1.0 : 0.5;
      CHECK(test.tolerated_bias - exact.tests[i].tolerated_bias == approx(rounding * scale).epsilon(1e-9));
      const bool is_stream = test.signal == Signal::x_out;
      const auto depth = static_cast<std::size_t>(test.index + (is_stream ? 0 : 1));
      // The tolerated bias is at least 0.3 times the width factor at that depth; token overlaps add to it.
      CHECK(exact.tests[i].tolerated_bias >= 0.3 * at_depth[depth] * scale * (1.0 - 1e-12));
      if (is_stream) {
        double& last = before[{test.statistic, test.signal}];
        CHECK(exact.tests[i].tolerated_bias >= last);
        last = exact.tests[i].tolerated_bias;
      }
    }
  }
  prediction.exact_at_width = true;
  prediction.spread = prediction.profile;
  const judge::StackVerdict exact =
      judge::verdicts_of({{spec, {measured, 16}, DType::f64, prediction, rounding}}, {}).front();
  REQUIRE(exact.tests.size() == 18);
  for (const judge::Test& test : exact.tests) {
    const double scale = test.statistic == Statistic::token_cosine ? 1.0 : 0.5;
    CHECK(test.tolerated_bias == approx(rounding * scale).epsilon(1e-9));
  }
}

}  // namespace periscope
