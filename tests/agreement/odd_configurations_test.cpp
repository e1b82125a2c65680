#include <cmath>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "experiments/engine/run/stacks.h"
#include "experiments/studies/studies.h"
#include "tests/support/doctest.h"

/// Verdicts of degenerate configurations.
namespace periscope {
namespace {

const std::string base =
    "model.layers=2 model.width=16 model.heads=2 model.mlp_width=24 model.vocab=11 init.scheme=lecun input.tokens=6 "
    "run.backward=true run.seeds=5 theory.tolerance=0.5 theory.gradient_tolerance=1.0 "
    R"(model.placement=["pre","peri","post"] )";

/// Loads settings that are separated by spaces.
config::Config loaded(const std::string& settings) {
  std::istringstream words(settings);
  return config::load_config(sections(), "", std::vector<std::string>(std::istream_iterator<std::string>(words), {}));
}

const std::vector<std::string> degenerate{
    "", "run.dtype=f64", "run.seeds=1", "run.seeds=2", "input.tokens=1", "input.tokens=1 run.dtype=f64",
    "input.tokens=1 model.causal=false model.qk_norm=head", "input.kind=tokens input.tokens=1", "init.qk_factor=0.0",
    "init.qk_factor=0.0 model.qk_norm=head", "init.qk_factor=0.0 model.qk_norm=full run.dtype=f64", "model.gamma=0.0",
    "model.gamma=0.0 model.norm=layer", "model.vocab=1", "model.vocab=1 run.dtype=f64",
    "input.kind=tokens model.vocab=1", "init.down_factor=0.0", "init.down_factor=0.0 model.mlp=relu",
    "init.o_factor=0.0",
    "init.residual=l run.dtype=f64",  // W_o of the first sublayer is 0
    "init.scheme=normal init.std=0.0", "init.scheme=normal init.std=1e-30", "init.scheme=normal init.std=30.0",
    "model.placement={A=true,beta=0.0}", "model.placement={A=true,B=true,beta=0.0} run.dtype=f64",
    "model.placement={alpha=0.0}", "input.second_moment=1e-60", "input.second_moment=1e-60 run.dtype=f64",
    "input.second_moment=1e60 run.dtype=f64", "input.second_moment=1e-300 run.dtype=f64 model.norm_eps=0.0",
    "model.placement=none init.scheme=he model.layers=8",
    "model.placement=none model.layers=6 init.factor=30 init.scheme=scaled run.dtype=f64",
    R"(model.placement=["deepnorm","mix","lns"] input.tokens=1)", "model.mlp=relu model.mlp_width=1 input.tokens=2",
    "model.width=1 model.heads=1 model.mlp_width=1 model.rope=false",
    "model.width=2 model.heads=1 model.norm=layer model.mlp_width=2", "model.unembedding=false",
    "model.final_norm=false model.placement=pre",
    // Scales whose squares underflow or overflow in the theory.
    "model.gamma=1e-200 run.dtype=f64 model.placement=residual-dual init.scheme=scaled init.factor=1e30",
    "init.down_factor=1e150 run.dtype=f64 model.mlp=geglu input.kind=tokens",
    // Equal tokens, for which no gradient flows through the scores.
    "input.correlation=1.0", "input.correlation=1.0 run.dtype=f64",
    "input.correlation=1.0 model.rope=false model.norm=layer",
    "input.correlation=1.0 model.qk_norm=head model.layers=6", "model.placement=residual input.correlation=1.0",
    "model.v_norm=true model.inner_norm=both model.attention_gate=head",
    "model.v_norm=true model.inner_norm=both model.attention_gate=channel run.dtype=f64",
    "model.v_norm=true model.attention_gate=head input.tokens=1",
    "model.v_norm=true model.inner_norm=both input.correlation=1.0 run.dtype=f64",
    "model.v_norm=true model.attention_gate=channel init.scheme=normal init.std=30.0",
    "model.v_norm=true model.inner_norm=both model.attention_gate=head init.scheme=normal init.std=0.0",
    "model.placement=none model.inner_norm=both model.layers=6 init.factor=30 init.scheme=scaled"};

TEST_CASE("every degenerate configuration has a verdict, and rounding noise does not reject theory") {
  for (const std::string& settings : degenerate) {
    CAPTURE(settings);
    const config::Config config = loaded(base + settings);
    stacks::Progress progress;
    const std::vector<stacks::StackResult> results = stacks::compare(config, "propagate", progress);
    for (const stacks::StackResult& r : results) {
      CAPTURE(r.spec.model.placement.name);
      const judge::StackVerdict& a = r.judged;
      INFO("decided by ", a.worst < 0 ? "" : a.worst_test().name(), " ", a.reason);
      CHECK(a.verdict != judge::Verdict::disagrees);
      CHECK((a.verdict == judge::Verdict::agrees || !a.reason.empty()));
      CHECK_FALSE(std::isnan(a.power.worst));
      CHECK_FALSE(std::isnan(a.power.median));
      for (const judge::Test& test : a.tests) CHECK_FALSE(std::isnan(test.critical));
    }
  }
}

TEST_CASE("a nonzero gradient where theory predicts zero is rejected") {
  const config::Config config = loaded(base + "input.tokens=1 run.dtype=f64 model.placement=pre");
  stacks::Progress progress;
  const std::vector<stacks::StackResult> results = stacks::compare(config, "propagate", progress);
  judge::Measurement measured = *results[0].measurement;
  measured.per_seed.clear();
  const auto verdict = [&] {
    return judge::verdicts_of({{.spec = results[0].spec,
                                .measured = measured,
                                .dtype = config.run.dtype,
                                .prediction = results[0].prediction}},
                              config.agreement)
        .front();
  };
  const judge::StackVerdict right = verdict();
  CHECK(right.verdict != judge::Verdict::disagrees);
  double& q = measured.profile.curves[{Statistic::grad_sq, Weight::q}].value[1];
  CHECK(q == 0.0);
  q = 1.0;
  const judge::StackVerdict wrong = verdict();
  CHECK(wrong.verdict == judge::Verdict::disagrees);
  CHECK(wrong.worst_test().name() == "grad_sq q[1]");
}

}  // namespace
}  // namespace periscope
