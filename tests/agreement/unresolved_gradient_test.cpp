#include <cmath>
#include <string>

#include "experiments/engine/judge/stack_verdicts.h"
#include "experiments/engine/judge/tolerated_bias.h"
#include "sim/numerics/tolerances.h"
#include "sim/spec/weight.h"
#include "tests/support/doctest.h"

/// A gradient near its rounding error is compared as a square, with the finite-width term of its logarithm.
namespace periscope {
namespace {

constexpr int seeds = 25;

/// One bidirectional layer. The predicted squared gradient of W_q is five times its rounding error, so its logarithm
/// has an error above 0.1. The measured squared gradient is `ratio` times the prediction.
struct Unresolved {
  explicit Unresolved(double ratio, double log_error = 0.1) {
    spec.model.layers = 1;
    spec.model.width = 64;
    spec.model.heads = spec.model.kv_heads = 4;
    spec.model.head_dim = 16;
    spec.model.causal = false;
    spec.input.tokens = 16;
    measured.curves[{Statistic::second_moment, Signal::A_out}] = {{1.0, 1.0}, {0.0, 0.0}};
    measured.curves[{Statistic::grad_sq, Signal::f_out}] = {{1.0, 1.0}, {0.0, 0.0}};
    rounding = judge::gradient_rounding(spec, measured, DType::f32, Weight::q, 0);
    t = 5.0 * (rounding.measured + rounding.predicted);
    measured.curves[{Statistic::grad_sq, Weight::q}] = {{ratio * t}, {ratio * t * 0.01}};
    measured.curves[{Statistic::log_grad_sq, Weight::q}] = {{std::log(ratio * t)}, {log_error}};
    prediction.profile.curves[{Statistic::grad_sq, Weight::q}] = {{t}, {0.0}};
    prediction.profile.curves[{Statistic::log_grad_sq, Weight::q}] = {{std::log(t)}, {0.0}};
    prediction.finite_width = {0.0, 1.0 / 64.0, 2.0 / 64.0};
    prediction.replicates = 8;
    prediction.gradient_tolerance = 0.1;
  }
  [[nodiscard]] judge::StackVerdict judged(const config::AgreementOptions& options = {}) const {
    return judge::verdicts_of({{spec, {measured, seeds}, DType::f32, prediction}}, options).front();
  }
  [[nodiscard]] double rounded() const {
    return rounding.measured + 2.0 * std::sqrt(rounding.measured * t) + rounding.predicted;
  }

  StackSpec spec;
  Profile measured;
  theory::Prediction prediction;
  judge::RoundingError rounding;
  double t = 0.0;
};

}  // namespace

TEST_CASE("the tolerated bias of an unresolved gradient is the bias of its logarithm, applied as a factor") {
  for (const double log_error : {0.0, 0.1, 0.2, double{NAN}}) {
    CAPTURE(log_error);
    Unresolved one(1.2, log_error);
    const bool has_logarithm = !std::isnan(log_error);
    if (!has_logarithm) one.measured.curves[{Statistic::log_grad_sq, Weight::q}].value = {-INFINITY};
    const judge::StackVerdict a = one.judged({.finite_width_gradient = 0.7});
    REQUIRE(a.tests.size() == 1);
    CHECK(a.tests[0].statistic == Statistic::grad_sq);
    const double width_term =
        0.7 * judge::WidthBias(one.spec, one.prediction.finite_width, {}).of_log_gradient(0, true);
    const double half_variance = has_logarithm ? seeds * log_error * log_error / 2.0 : 0.0;
    CHECK(a.tests[0].tolerated_bias - one.rounded() == approx(one.t * (std::exp(width_term + half_variance) - 1.0)));
  }
}

TEST_CASE("the rounding error of the gradient of W_q scales with the norms and width of attention") {
  Unresolved one(1.0);
  ModelSpec& m = one.spec.model;
  m.norm_eps = 1e-3;
  const double square = m.width * std::pow(stddev_of(one.spec, 0, Weight::v), 2);  // mean square of the entries of v
  REQUIRE(square > one.spec.input.tokens * m.norm_eps);
  const auto size = [&] { return judge::gradient_rounding(one.spec, one.measured, DType::f32, Weight::q, 0).size; };
  const double plain = size();
  m.qk_norm = QkNorm::head;
  CHECK(size() == approx(plain / square / (square + m.norm_eps)));
  m.qk_norm = QkNorm::none;
  m.v_norm = true;
  CHECK(size() == approx(plain / square));
  m.inner_norm = InnerNorm::o;
  CHECK(size() == approx(plain / square * one.spec.input.tokens));
  m.v_norm = false;
  CHECK(size() == approx(plain / square * one.spec.input.tokens));
}

TEST_CASE("an unresolved gradient agrees within the finite-width term and is rejected beyond it") {
  // The finite-width term is about 0.4 for 64 features and 16 keys.
  const double width_term =
      judge::WidthBias(Unresolved(1.0).spec, {0.0, 1.0 / 64.0, 2.0 / 64.0}, {}).of_log_gradient(0, true);
  CHECK(Unresolved(std::exp(width_term), 0.0).judged().rejected == 0);
  CHECK(Unresolved(std::exp(width_term) + 1.0, 0.0).judged().rejected == 1);
}

TEST_CASE("a gradient that is exactly zero in theory and measurement has no tolerated bias") {
  Unresolved one(1.0);
  one.measured.curves[{Statistic::grad_sq, Weight::q}] = {{0.0}, {0.0}};
  one.measured.curves[{Statistic::log_grad_sq, Weight::q}] = {{-INFINITY}, {NAN}};
  one.prediction.profile.curves[{Statistic::grad_sq, Weight::q}] = {{0.0}, {0.0}};
  one.prediction.profile.curves[{Statistic::log_grad_sq, Weight::q}] = {{-INFINITY}, {0.0}};
  const judge::StackVerdict a = one.judged();
  CHECK(a.tests.at(0).tolerated_bias == 0.0);
  CHECK(a.verdict == judge::Verdict::agrees);
}

}  // namespace periscope
