#include <cmath>

#include "experiments/engine/run/stacks.h"
#include "experiments/studies/gradients/experiments.h"
#include "sim/base/error.h"
#include "tests/support/doctest.h"
#include "tests/support/set_placements.h"

/// Verdicts of the gradient experiments on small real stacks: they agree, and a planted wrong constant is rejected.
namespace periscope {
namespace {

stacks::Progress unseen;

gradients::GradientConfig small(std::initializer_list<const char*> placements) {
  gradients::GradientConfig config;
  config.base.model = {.layers = 4, .width = 96, .heads = 6, .kv_heads = 6, .head_dim = 16, .mlp_width = 128};
  config.base.init.scheme = InitScheme::lecun;
  config.base.input.tokens = 10;
  testing::set_placements(config, placements);
  config.run.seeds = 24;
  config.run.dtype = DType::f64;
  config.run.backward = true;
  config.theory.gradient_tolerance = 0.02;
  config.layers = {2, 4, 8};
  config.qk_factors = {0.0};
  config.down_factors = {0.1, 0.5, 2.5, 10.0};
  return config;
}

judge::Verdict judged_again(judge::Test& test) {
  judge::judge({&test}, {.familywise_error = 0.01});
  return test.verdict;
}

}  // namespace

TEST_CASE("depth: Pre-LN's exponent agrees with theory, one of -1 (a norm that forgets its root) does not") {
  const gradients::GradientConfig config = small({"pre"});
  gradients::DepthResult result = gradients::gradient_depth(config, unseen);
  CHECK(gradients::depth_outcome(config, result).code == ExitCode::ok);
  judge::Test& exponent = result.cases[0].exponent;
  CHECK(exponent.measured.value < -0.3);
  exponent.predicted.value *= 2.0;
  CHECK(judged_again(exponent) == judge::Verdict::disagrees);
  CHECK(gradients::depth_outcome(config, result).code == ExitCode::check_failed);
}

TEST_CASE("depth: where theory refuses greater depths the limit is unknown, and the measured exponents are judged") {
  gradients::GradientConfig config = small({"none"});
  config.base.init.scheme = InitScheme::scaled;
  config.base.init.factor = 1e3;     // about 1e5 a layer: 1e40 after eight layers, beyond all numbers after sixty-four
  config.base.init.qk_factor = 0.0;  // the MLPs do that, and patterns as sharp as these scales make them take a minute
  config.base.model.mlp = MlpKind::relu;
  config.run.seeds = 4;
  config.layers = {2, 4, 8};
  const gradients::DepthResult result = gradients::gradient_depth(config, unseen);
  const gradients::DepthLaw& law = result.cases.at(0);
  CHECK(law.refusal.empty());
  CHECK(std::isnan(law.limit));
  CHECK(law.gradient.predicted.value.size() >= 3);
  CHECK(law.gradient.predicted.value.size() < result.theory_layers.size());
  CHECK(law.exponent.verdict != judge::Verdict::not_checked);
  const study::Outcome outcome = gradients::depth_outcome(config, result);
  CHECK(outcome.data.value().length("theory_layers") == result.theory_layers.size());
}

TEST_CASE("the gradient of W_o behind gates is that of simulated stacks") {
  for (const AttentionGate gate : {AttentionGate::head, AttentionGate::channel}) {
    gradients::GradientConfig config = small({"pre"});
    config.base.model.layers = 2;
    config.base.model.attention_gate = gate;
    const stacks::StackResult stack = stacks::confront(config, "propagate", unseen).stacks.at(0);
    CHECK(stack.judged.verdict != judge::Verdict::disagrees);
    const Profile& measured = stack.measurement.value().profile;
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const double found = measured.find(Statistic::log_grad_sq, Weight::o)->value[layer];
      // Half-open gates let a quarter of the square through, 1.4 in logarithms.
      CHECK(std::abs(found - stack.prediction.profile.find(Statistic::log_grad_sq, Weight::o)->value[layer]) < 0.3);
    }
  }
}

TEST_CASE("attenuation: one layer has no rate, which is said before anything is measured") {
  gradients::GradientConfig config = small({"post"});
  config.base.model.layers = 1;
  CHECK_THROWS_AS(static_cast<void>(gradients::gradient_attenuation(config, unseen)), ConfigError);
}

TEST_CASE("gradient experiments refuse what the run's dtype cannot show") {
  gradients::GradientConfig config = small({"pre"});
  config.base.input.second_moment = 1e-80;
  config.run.dtype = DType::f32;
  config.run.seeds = 4;
  const gradients::Cases<gradients::ScorePath> paths = gradients::score_path(config, unseen);
  CHECK(paths.cases.at(0).refusal == "second_moment A_out[0] is predicted to be 1e-74: too small for f32");
  CHECK(gradients::score_path_outcome(config, paths).code == ExitCode::ok);
}

TEST_CASE("attenuation: the predicted rate agrees, G10's does not and its claim fails") {
  const gradients::GradientConfig config = small({"post"});
  gradients::Cases<gradients::Attenuation> results = gradients::gradient_attenuation(config, unseen);
  CHECK(gradients::attenuation_outcome(config, results).code == ExitCode::ok);
  CHECK(results.cases[0].down.claim.verdict == judge::ClaimVerdict::fails);
  results.cases[0].down.rate.predicted.value = gradients::claimed_attenuation_rate();
  CHECK(judged_again(results.cases[0].down.rate) == judge::Verdict::disagrees);
  CHECK(gradients::attenuation_outcome(config, results).code == ExitCode::check_failed);
}

TEST_CASE("identity path: the skip path's share agrees, one without its square does not; a broken identity counts") {
  const gradients::GradientConfig config = small({"peri", "post"});
  gradients::Cases<gradients::IdentityPath> results = gradients::identity_path(config, unseen);
  CHECK(gradients::identity_path_outcome(config, results).code == ExitCode::ok);
  for (gradients::IdentityPath& path : results.cases) {
    CHECK(path.claim.verdict == judge::ClaimVerdict::holds);
    judge::Test planted = path.shares[2];
    planted.predicted.value = std::sqrt(planted.predicted.value);
    CHECK(judged_again(planted) == judge::Verdict::disagrees);
  }
  for (const double broken : {1e-6, std::nan("")}) {
    results.cases[0].error = broken;
    CHECK(gradients::identity_path_outcome(config, results).code == ExitCode::check_failed);
  }
}

TEST_CASE("identity path: of a gradient that is zero or not finite nothing is claimed") {
  for (const double stddev : {0.0, 1e25}) {
    gradients::GradientConfig config = small({"pre", "post"});
    config.base.init = {.scheme = InitScheme::normal, .std = stddev};
    testing::set_placements(config, {"pre", "post"});
    config.run.dtype = DType::f32;
    config.run.seeds = 4;
    const gradients::Cases<gradients::IdentityPath> results = gradients::identity_path(config, unseen);
    for (const gradients::IdentityPath& path : results.cases)
      CHECK(path.claim.verdict == judge::ClaimVerdict::not_testable);
    CHECK(gradients::identity_path_outcome(config, results).code == ExitCode::ok);
  }
}

TEST_CASE("score path: theory with it agrees, theory without it does not") {
  const gradients::GradientConfig config = small({"b-only"});
  const gradients::Cases<gradients::ScorePath> results = gradients::score_path(config, unseen);
  CHECK(gradients::score_path_outcome(config, results).code == ExitCode::ok);
  CHECK(results.cases[0].without.front().verdict == judge::Verdict::disagrees);
}

TEST_CASE("crossover: where the ratio is 1 agrees with theory, twice as far does not") {
  const gradients::GradientConfig config = small({"post", "pre", "peri"});
  gradients::CrossoverResult result = gradients::gradient_crossover(config, unseen);
  CHECK(gradients::crossover_outcome(config, result).code == ExitCode::ok);
  gradients::Crossover& peri = result.cases[1];
  REQUIRE(peri.crosses);
  CHECK_FALSE(result.cases[0].crosses);
  CHECK(result.order.verdict == judge::ClaimVerdict::holds_with_condition);
  peri.crossing.predicted.value += std::log(2.0);
  CHECK(judged_again(peri.crossing) == judge::Verdict::disagrees);
  CHECK(gradients::crossover_outcome(config, result).code == ExitCode::check_failed);
}

TEST_CASE("no gradient experiment agrees with a prediction that is less precisely than asked for, and each says so") {
  gradients::GradientConfig config = small({"pre"});
  config.base.model.layers = 2;
  config.base.model.vocab = 16;
  config.base.input.tokens = 3;
  config.theory.gradient_tolerance = 1e-9;  // no sampled pattern gives that
  // Too little power would outrank it.
  config.agreement.power_limits.log_grad_sq = 10.0;
  config.agreement.power_limits.score_share = 1.0;
  config.agreement.finite_width_gradient = 0.1;
  config.layers = {1, 2, 3};
  config.qk_factors = {1.0};
  config.down_factors = {0.5, 2.5};
  const auto check = [](const study::Outcome& outcome) {
    CAPTURE(outcome.table);
    bool said = false;
    for (const dataset::Column& v : outcome.data.value().columns) {
      const auto* words = std::get_if<std::vector<std::string>>(&v.values);
      if (words == nullptr) continue;
      CAPTURE(v.name);
      for (const std::string& word : *words) {
        CHECK(word != "agrees");
        said = said || word.find("less precisely than asked for") != std::string::npos;
      }
    }
    CHECK(said);
    CHECK(outcome.table.find("(theory.gradient_tolerance") != std::string::npos);
  };
  SUBCASE("depth") { check(gradients::depth_outcome(config, gradients::gradient_depth(config, unseen))); }
  SUBCASE("attenuation") {
    check(gradients::attenuation_outcome(config, gradients::gradient_attenuation(config, unseen)));
  }
  SUBCASE("identity path") {
    check(gradients::identity_path_outcome(config, gradients::identity_path(config, unseen)));
  }
  SUBCASE("score path") { check(gradients::score_path_outcome(config, gradients::score_path(config, unseen))); }
  SUBCASE("crossover") {
    testing::set_placements(config, {"pre", "peri"});
    check(gradients::crossover_outcome(config, gradients::gradient_crossover(config, unseen)));
  }
}

}  // namespace periscope
