#include "theory/modules/fault.h"

#include "tests/support/doctest.h"

#include <cmath>

#include "theory/predict/predict.h"

namespace periscope::theory {
namespace {

StackSpec small_stack(const char* placement) {
  StackSpec spec;
  spec.model = {.layers = 3, .width = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .mlp_width = 128};
  spec.model.placement = *find_placement(placement);
  take_defaults(spec.model.placement, spec.model);
  spec.init.scheme = InitScheme::lecun;
  spec.input.tokens = 6;
  return spec;
}

/// Prediction with a fixed number of patterns, so that predictions with and without a fault share random numbers.
Prediction with(Fault fault, const StackSpec& spec) {
  return predict(spec, {},
                 {.tolerance = 1e-9,
                  .gradient_tolerance = 1e-9,
                  .max_samples = 16,
                  .labels = {{0, 1, 2, 0, 1, 2}},
                  .fault = fault});
}

double at(const Prediction& p, Statistic statistic, Signal site, std::size_t i) {
  return p.profile.find(statistic, site)->value[i];
}

}  // namespace

TEST_CASE("beta0 is off from the middle of the stack on, by 1 % with norm B and by 5 % without") {
  for (const auto& entry : {std::pair{"peri", 1.01}, {"b-only", 1.01}, {"pre", 1.05}}) {
    const char* const placement = entry.first;
    const double off = entry.second;
    CAPTURE(placement);
    const Prediction right = with(Fault::none, small_stack(placement));
    const Prediction wrong = with(Fault::beta0, small_stack(placement));
    for (std::size_t depth = 0; depth <= 3; ++depth) {
      CHECK(at(wrong, Statistic::second_moment, Signal::x_out, depth) ==
            at(right, Statistic::second_moment, Signal::x_out, depth));
    }
    const double q = at(right, Statistic::second_moment, Signal::x_out, 3);
    const double branch = at(right, Statistic::second_moment, Signal::B_out, 3);
    CHECK(at(wrong, Statistic::second_moment, Signal::x_out, 4) == doctest::Approx(q + off * branch).epsilon(1e-6));
  }
}

TEST_CASE("no_score_path reduces gradients below the top attention, not its own") {
  const Prediction right = with(Fault::none, small_stack("pre"));
  const Prediction wrong = with(Fault::no_score_path, small_stack("pre"));
  CHECK(at(wrong, Statistic::log_grad_sq, Signal::x_out, 5) == at(right, Statistic::log_grad_sq, Signal::x_out, 5));
  CHECK(at(wrong, Statistic::log_grad_sq, Signal::x_out, 4) <
        at(right, Statistic::log_grad_sq, Signal::x_out, 4) - 0.01);
}

TEST_CASE("query_gradient raises the squared gradient of W_q by 10 % and changes nothing else") {
  const Prediction right = with(Fault::none, small_stack("pre"));
  const Prediction wrong = with(Fault::query_gradient, small_stack("pre"));
  for (const auto& [key, curve] : right.profile.curves) {
    if (key.first != Statistic::log_grad_sq || std::holds_alternative<Signal>(key.second)) continue;
    const Curve& other = wrong.profile.curves.at(key);
    for (std::size_t layer = 0; layer < curve.value.size(); ++layer) {
      const double off = key.second == CurvePlace(Weight::q) ? std::log(1.1) : 0.0;
      CHECK(other.value[layer] - curve.value[layer] == doctest::Approx(off).epsilon(1e-9));
    }
  }
  CHECK(right.profile.curves.at({Statistic::grad_sq, Signal::x_out}).value ==
        wrong.profile.curves.at({Statistic::grad_sq, Signal::x_out}).value);
}

TEST_CASE("depth_constant uses the constants of one more layer, where there are any") {
  const ModelSpec lns = small_stack("lns").model;
  CHECK(step_under(Fault::depth_constant, lns, 2).branches[0].input_gain == doctest::Approx(1.0 / std::sqrt(3.0)));
  const ModelSpec deepnorm = small_stack("deepnorm").model;
  CHECK(step_under(Fault::depth_constant, deepnorm, 0).mixing[0][0] == doctest::Approx(std::pow(8.0, 0.25)));
  for (const Placement& p : placement_table()) {
    CAPTURE(p.name);
    StackSpec spec = small_stack(std::string(p.name).c_str());
    spec.model.layers = 7;  // Mix-LN switches at floor(L/4), which is 1 for 7 layers and 2 for 8
    bool differs = false;
    for (int l = 0; l < 14; ++l)
      differs = differs || step_under(Fault::depth_constant, spec.model, l) != spec.model.step(l);
    CHECK(differs == acts_on(Fault::depth_constant, spec, false));
  }
  CHECK(acts_on(Fault::depth_constant, small_stack("lns"), false));
  CHECK_FALSE(acts_on(Fault::depth_constant, small_stack("pre"), true));
}

TEST_CASE("faults of gradients act on gradients only") {
  for (const Fault fault : {Fault::no_score_path, Fault::query_gradient}) {
    CHECK(acts_on(fault, small_stack("pre"), true));
    CHECK_FALSE(acts_on(fault, small_stack("pre"), false));
  }
  CHECK_FALSE(acts_on(Fault::none, small_stack("pre"), true));
}

}  // namespace periscope::theory
