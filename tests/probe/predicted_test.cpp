#include "experiments/studies/probe/probe.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

TEST_CASE("the stack at initialization has gains of 1 and an input with the size of the drawn embedding") {
  ModelSpec model = tiny_stack().model;
  model.gamma = 2.0;
  config::Config config;
  config.base.init.embedding_std = 0.3;
  const StackSpec spec = probe::initial_stack(model, config, 5);
  CHECK(spec.model.gamma == 1.0);
  CHECK(spec.input.kind == InputKind::tokens);
  CHECK(spec.input.tokens == 5);
  CHECK(spec.input.second_moment == approx(0.09));
}

TEST_CASE("predictions use the configured tolerances, seed and labels") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.input.kind = InputKind::tokens;
  stacks::TokenInput input;
  input.ids = {0, 1, 2, 3, 4};
  input.labels = {1, 2, 3, 4, 0};
  config::Config config;
  config.theory.tolerance = 0.25;
  config.theory.gradient_tolerance = 3.0;
  config.run.seed = 7;
  stacks::Progress progress;
  const theory::Prediction forward = probe::predict_initial(spec, input, config, false, progress);
  const theory::Prediction both = probe::predict_initial(spec, input, config, true, progress);
  REQUIRE(forward.unsupported.empty());
  REQUIRE(both.unsupported.empty());
  for (const theory::Prediction* p : {&forward, &both}) {
    CHECK(p->tolerance == 0.25);
    CHECK(p->gradient_tolerance == 3.0);
  }
  CHECK(forward.profile.find(Statistic::log_grad_sq, Weight::q) == nullptr);
  REQUIRE(both.profile.find(Statistic::log_grad_sq, Weight::q) != nullptr);
  CHECK(forward.backward_samples == 0);
  CHECK(both.backward_samples > 0);
  // A smaller gradient tolerance needs more samples.
  config.theory.gradient_tolerance = 0.005;
  CHECK(probe::predict_initial(spec, input, config, true, progress).backward_samples > both.backward_samples);
  const auto top = [&](std::uint64_t seed) {
    config.run.seed = seed;
    return probe::predict_initial(spec, input, config, false, progress)
        .profile.find(Statistic::second_moment, Signal::x_out)
        ->value.back();
  };
  CHECK(top(7) == forward.profile.find(Statistic::second_moment, Signal::x_out)->value.back());
  CHECK(top(8) != top(7));
}

}  // namespace
}  // namespace periscope::testing
