#include <limits>

#include "experiments/core/stacks/need.h"
#include "tests/support/doctest.h"

/// How much of a pass the backward pass may keep, on machines of any size.
namespace periscope::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const std::size_t least = StackTape().budget;

/// A stack whose signals are a few gigabytes: 16 layers of 2048 features, 2048 tokens.
StackSpec large_stack() {
  StackSpec spec;
  ModelSpec& m = spec.model;
  m.layers = 16;
  m.width = 2048;
  m.heads = m.kv_heads = 16;
  m.head_dim = 128;
  m.mlp_width = 8192;
  spec.input.tokens = 2048;
  return spec;
}

config::RunOptions backward() {
  config::RunOptions run;
  run.backward = true;
  run.weights = config::WeightsChoice::dense;
  return run;
}

double budget(const config::RunOptions& run, double available) {
  return static_cast<double>(stacks::tape_budget(large_stack(), run, 1, 2, available));
}

TEST_CASE("without --memory a pass and what it keeps are 2.8 GB, or half of what there is") {
  const double kept = budget(backward(), 64e9);
  const double pass = stacks::reading_need(large_stack(), backward(), 1, 2, 0.0).bytes;
  CHECK(kept > 1e9);
  CHECK(kept + pass == doctest::Approx(2.8e9).epsilon(0.01));  // but for the curves of a seed
  CHECK(budget(backward(), infinity) == kept);
  CHECK(budget(backward(), 5e9) == doctest::Approx(kept - 0.3e9));
}

TEST_CASE("--memory gives as much, but at most 0.8 of what there is") {
  config::RunOptions run = backward();
  run.memory = 5e9;
  const double kept = budget(run, 64e9);
  CHECK(kept == doctest::Approx(budget(backward(), 64e9) + 2.2e9));
  CHECK(budget(run, 5e9) == doctest::Approx(kept - 1e9));
  run.memory = 1e30;
  CHECK(budget(run, infinity) == 0x1p62);
}

TEST_CASE("where all signals fit, nothing is computed again that would need memory too") {
  StackSpec spec = large_stack();
  spec.model.layers = 5;
  const stacks::Need all = stacks::reading_need(spec, backward(), 1, 2, infinity);
  CHECK(all.bytes < 2.8e9);
  CHECK(all.bytes < stacks::reading_need(spec, backward(), 1, 2, 1.6e9).bytes);
  CHECK(stacks::tape_budget(spec, backward(), 1, 2, 64e9) > 2'000'000'000U);
}

TEST_CASE("where there is no room for it, as little is kept as in a stack of no size") {
  config::RunOptions told = backward();
  told.memory = 1.0;
  for (const double available : {0.0, -1e9, 1e6, 1e9}) {
    CHECK(budget(backward(), available) == least);
    CHECK(budget(told, available) == least);
  }
}

TEST_CASE("what a GPU has is not asked, and passes without matrices keep little unless told") {
  config::RunOptions cuda = backward();
  cuda.device = "cuda";
  config::RunOptions free = backward();
  free.weights = config::WeightsChoice::matrix_free;
  config::RunOptions forward = backward();
  forward.backward = false;
  for (const config::RunOptions& run : {cuda, free, forward}) CHECK(budget(run, 64e9) == least);
  free.memory = 8e9;
  CHECK(budget(free, 64e9) > 1e9);
}

TEST_CASE("seeds that run at one time share it") {
  StackSpec small = large_stack();
  small.model.mlp_width = small.model.width = 1024;
  small.model.head_dim = 64;
  small.model.layers = 64;
  const auto kept = [&](int seeds) {
    return static_cast<double>(stacks::tape_budget(small, backward(), seeds, 2, 64e9));
  };
  CHECK(kept(1) - kept(2) == doctest::Approx(1.4e9).epsilon(0.02));  // half of it, and a thread less in each pass
  CHECK(kept(8) == kept(2));
}

TEST_CASE("an estimate for passes that keep no more than they always do does not count --memory") {
  config::RunOptions run = backward();
  run.memory = 1e12;
  const stacks::Need plain = stacks::kept_reading_need(large_stack(), backward(), 1, 2);
  CHECK(stacks::kept_reading_need(large_stack(), run, 1, 2).bytes == plain.bytes);
}

}  // namespace
}  // namespace periscope::testing
