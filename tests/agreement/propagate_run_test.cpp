#include <cmath>

#include "experiments/engine/judge/agreement.h"
#include "experiments/engine/run/confront.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "sim/backends.h"
#include "tests/support/doctest.h"
#include "theory/predict/finite_width.h"

/// A small run of propagate: the predictions are those that the test asks for itself, and each stack is judged by its
/// own.
namespace periscope::testing::propagate_run {
namespace {

constexpr int seeds = 5;

/// Two inputs and two placements, of each of which theory is told another init.down_factor.
config::Config tiny() {
  config::Config config;
  config.base.model = {.layers = 1, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 12};
  config.base.init.scheme = InitScheme::lecun;
  config.base.init.qk_factor = 0.5;
  config.base.input.tokens = 3;
  config.inputs = {InputKind::gaussian, InputKind::tokens};
  config.placements = {*find_placement("pre"), *find_placement("residual-dual")};
  config.run.seeds = seeds;
  config.run.seed = 23;
  config.run.dtype = DType::f64;
  config.run.backward = true;
  config.theory.replicates = 6;
  config.theory.tolerance = 0.1;
  config.theory.gradient_tolerance = 0.3;
  config.overridden = config.stacks();
  for (std::size_t i = 0; i < config.overridden.size(); ++i)
    config.overridden[i].init.down_factor = 1.0 + 0.25 * static_cast<double>(i);
  return config;
}

void check_same(const std::string& what, const Profile& found, const Profile& expected) {
  CHECK_MESSAGE(found.curves.size() == expected.curves.size(), what);
  for (const auto& [key, curve] : expected.curves) {
    const Curve* other = found.find(key.first, key.second);
    REQUIRE(other != nullptr);
    const std::string name = what + " " + std::string(name_of(key.first)) + " " + std::string(name_of(key.second));
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const bool both_nan = std::isnan(curve.value[i]) && std::isnan(other->value[i]);
      CHECK_MESSAGE((both_nan || curve.value[i] == other->value[i]), name << "[" << i << "]");
    }
  }
  for (const auto& [key, curve] : expected.weight_curves) {
    const Weight weight = key.second;
    CHECK_MESSAGE(found.find(key.first, weight)->value == curve.value, what << " " << name_of(weight));
  }
}

}  // namespace

TEST_CASE("propagate: each stack is compared with the theory of its own override, and judged with all others") {
  const config::Config config = tiny();
  stacks::Progress progress;
  const std::vector<stacks::StackResult> results = stacks::confront(config, "propagate", progress).stacks;
  REQUIRE(results.size() == 4);
  const auto backend = make_backend("cpu");
  std::vector<judge::SeedCurves> per_seed(4);
  std::vector<judge::Comparison> comparisons;
  for (std::size_t i = 0; i < 4; ++i) {
    const stacks::StackResult& r = results[i];
    CAPTURE(i);
    const StackSpec spec = config.stacks()[i];
    CHECK(r.spec.model.placement.name == (i % 2 == 0 ? "pre" : "residual-dual"));
    CHECK(r.spec.input.kind == (i < 2 ? InputKind::gaussian : InputKind::tokens));
    (void)stacks::measure_stack(*backend, spec, config.run, seeds, progress,
                                [&](const Reading& reading) { per_seed[i].add(reading.profile); });
    REQUIRE(r.measurement);
    CHECK(r.measurement->seeds == seeds);
    // Theory hears of its own stack, and of the ids and labels of the run.
    std::vector<std::vector<int>> ids;
    theory::PredictionOptions options{.tolerance = config.theory.wanted_tolerance(),
                                      .gradient_tolerance = config.theory.wanted_gradient_tolerance(),
                                      .seed = 23};
    for (std::uint64_t seed = 23; seed < 23 + seeds; ++seed) {
      if (i >= 2) ids.push_back(stacks::token_ids(spec, seed));
      options.labels.push_back(stacks::label_ids(spec, seed));
    }
    theory::Prediction expected = theory::predict(config.overridden[i], ids, options);
    theory::predict_at_width(config.overridden[i], ids, {.seeds = seeds, .replicates = 6, .seed = 23}, expected);
    CHECK(r.prediction.exact_at_width);
    CHECK(r.prediction.finite_width_replicates == expected.finite_width_replicates);
    CHECK(r.prediction.finite_width == expected.finite_width);
    check_same("predicted", r.prediction.profile, expected.profile);
    check_same("predicted limit", r.prediction.limit, expected.limit);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    comparisons.push_back({.spec = results[i].spec,
                           .measured = results[i].measurement->profile,
                           .seeds = seeds,
                           .diverged_seeds = 0,
                           .dtype = DType::f64,
                           .prediction = results[i].prediction,
                           .per_seed = &per_seed[i]});
  }
  const std::vector<judge::Agreement> expected = judge::agreements_of(comparisons, config.agreement);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    const judge::Agreement& found = results[i].agreement;
    CHECK(found.verdict == expected[i].verdict);
    CHECK(found.level == expected[i].level);
    CHECK(found.critical == expected[i].critical);
    CHECK(found.worst == expected[i].worst);
    REQUIRE(found.cells.size() == expected[i].cells.size());
    for (std::size_t k = 0; k < found.cells.size(); ++k) {
      CAPTURE(found.cells[k].name());
      CHECK(found.cells[k].name() == expected[i].cells[k].name());
      CHECK(found.cells[k].allowance == expected[i].cells[k].allowance);
      CHECK(found.cells[k].error() == expected[i].cells[k].error());
    }
  }
}

}  // namespace periscope::testing::propagate_run
