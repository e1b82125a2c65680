#include <set>

#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "sim/backends.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/set_placements.h"

/// Random draws per seed, shared by all experiments that average over seeds.
namespace periscope::testing {
namespace {

TEST_CASE("run.seeds = n draws n different stacks, from the seeds run.seed, run.seed + 1, …") {
  StackSpec spec = tiny_stack();
  spec.input.kind = InputKind::tokens;
  config::RunOptions run;
  run.dtype = DType::f64;
  run.backward = true;
  run.seed = 7;
  const auto backend = make_backend("cpu");
  const auto readings = [&](std::uint64_t first, int seeds) {
    config::RunOptions options = run;
    options.seed = first;
    stacks::Progress progress;
    std::vector<std::pair<double, double>> all;  // second moment at the last depth, squared gradient at the first
    (void)stacks::measure_stack(*backend, spec, options, seeds, "", progress, [&](const Reading& r) {
      all.emplace_back(r.profile.find(Statistic::second_moment, Signal::x_out)->value.back(),
                       r.profile.find(Statistic::grad_sq, Signal::x_out)->value.front());
    });
    return all;
  };
  const auto four = readings(7, 4);
  REQUIRE(four.size() == 4);
  CHECK(std::set(four.begin(), four.end()).size() == 4);
  for (std::size_t i = 0; i < four.size(); ++i) CHECK(readings(7 + i, 1) == std::vector{four[i]});
}

TEST_CASE("predicted gradients use the labels of every seed") {
  config::Config config;
  config.base = tiny_stack();
  config.base.input.kind = InputKind::tokens;
  set_placements(config, {"pre"});
  config.inputs = {InputKind::tokens};
  config.run.backward = true;
  config.run.seed = 7;
  config.run.seeds = 3;
  stacks::Progress progress;
  const stacks::StackResult result = stacks::predict_stacks(config, false, progress).front();
  REQUIRE(result.prediction.unsupported.empty());
  theory::PredictionOptions options = stacks::prediction_options(config);
  const auto gradient_of = [](const theory::Prediction& p) {
    return p.profile.find(Statistic::grad_sq, Signal::x_out)->value;
  };
  const auto ids = stacks::distinct_token_ids(result.spec, 7, 3);
  for (const std::uint64_t seed : {7U, 8U, 9U}) options.labels.push_back(stacks::label_ids(result.spec, seed));
  CHECK(gradient_of(result.prediction) == gradient_of(theory::predict(result.spec, ids, options)));
  options.labels.resize(1);
  CHECK(gradient_of(result.prediction) != gradient_of(theory::predict(result.spec, ids, options)));
}

TEST_CASE("stacks share draws unless run.paired is false; then draws depend on the stack only") {
  config::Config config;
  config.base = tiny_stack();
  config.base.init.scheme = InitScheme::lecun;
  config.run.seeds = 3;
  config.run.dtype = DType::f64;
  config.run.backward = true;
  config.theory.finite_width = true;
  config.inputs = {InputKind::gaussian, InputKind::tokens};
  set_placements(config, {"pre", "peri"});
  const auto run_with = [&](bool paired) {
    config.run.paired = paired;
    stacks::Progress progress;
    std::vector<stacks::StackResult> results = stacks::predict_stacks(config, true, progress);
    stacks::measure_stacks(config, results, progress);
    return results;
  };
  const auto input_of = [](const auto& run, std::size_t stack) {
    return run[stack].measurement->profile.find(Statistic::second_moment, Signal::x_out)->value.front();
  };
  const auto predicted_of = [](const auto& run, std::size_t stack) {
    return run[stack].prediction.profile.find(Statistic::second_moment, Signal::x_out)->value.front();
  };
  const auto with_pairs = run_with(true), without_pairs = run_with(false);
  for (const std::size_t pre : {0U, 2U}) {  // index of the "pre" stack for each kind of input
    CHECK(input_of(with_pairs, pre) == input_of(with_pairs, pre + 1));
    CHECK(input_of(without_pairs, pre) != input_of(without_pairs, pre + 1));
  }
  CHECK(predicted_of(with_pairs, 2) == predicted_of(with_pairs, 3));
  CHECK(predicted_of(without_pairs, 2) != predicted_of(without_pairs, 3));
  set_placements(config, {"peri"});
  const auto alone = run_with(false);
  CHECK(input_of(alone, 0) == input_of(without_pairs, 1));
  CHECK(input_of(alone, 1) == input_of(without_pairs, 3));
  CHECK(predicted_of(alone, 1) == predicted_of(without_pairs, 3));
  CHECK(stacks::run_of(config, config.stacks().front()).seed != stacks::run_of(config, config.stacks().back()).seed);
}

}  // namespace
}  // namespace periscope::testing
