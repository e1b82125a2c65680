#include <limits>

#include "experiments/engine/run/need.h"
#include "tests/support/doctest.h"

/// How much memory a run is taken to need, and how much of it the backward pass may keep, on machines of any size.
namespace periscope::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const std::size_t least = StackTape().budget;

/// A stack whose signals are a few gigabytes: 16 layers of 2048 features, 2048 tokens.
StackSpec large_stack() {
  StackSpec spec;
  spec.model = {.layers = 16, .width = 2048, .heads = 16, .kv_heads = 16, .head_dim = 128, .mlp_width = 8192};
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
  CHECK(kept > 1e9);
  CHECK(kept + stacks::reading_need(large_stack(), backward(), 1, 2).bytes == doctest::Approx(2.8e9));
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

TEST_CASE("where there is no room for it, as little is kept as in a stack of no size") {
  config::RunOptions asked = backward();
  asked.memory = 1.0;
  for (const double available : {0.0, -1e9, 1e6, 1e9}) {
    CHECK(budget(backward(), available) == least);
    CHECK(budget(asked, available) == least);
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
  small.model = {.layers = 64, .width = 1024, .heads = 16, .kv_heads = 16, .head_dim = 64, .mlp_width = 1024};
  const auto kept = [&](int seeds) {
    return static_cast<double>(stacks::tape_budget(small, backward(), seeds, 2, 64e9));
  };
  CHECK(kept(1) - kept(2) == doctest::Approx(1.4e9).epsilon(0.02));  // half of it, and a thread less in each pass
  CHECK(kept(8) == kept(2));
}

TEST_CASE("what a need grows with") {
  const StackSpec stack = large_stack();
  StackSpec longer = stack;
  longer.input.tokens *= 2;
  StackSpec deeper = stack;
  deeper.model.layers *= 2;
  const auto keeping = [](const StackSpec& s, double copies) {
    return stacks::reading_need(s, backward(), 1, 1, copies).bytes;
  };
  CHECK(keeping(longer, 2.0) == doctest::Approx(2.0 * keeping(stack, 2.0)).epsilon(0.05));
  CHECK(keeping(deeper, 2.0) > 1.5 * keeping(stack, 2.0));
  CHECK(keeping(stack, 2.0) - keeping(stack, 1.0) == doctest::Approx(keeping(stack, 1.0) - keeping(stack, 0.0)));
  // Kernels are of pairs of tokens.
  CHECK(stacks::limit_need(longer, false, 1).bytes > 3.0 * stacks::limit_need(stack, false, 1).bytes);
  // But a grid's are of few, whose patterns go over all tokens.
  StackSpec sampled = longer;
  sampled.input.tokens = 4096;
  sampled.init.qk_factor = 1.0;
  StackSpec twice = sampled;
  twice.input.tokens *= 2;
  const double of_grid = stacks::limit_need(sampled, false, 1, false).bytes;
  CHECK(stacks::limit_need(twice, false, 1, false).bytes < 2.5 * of_grid);
  CHECK(stacks::limit_need(sampled, false, 1).bytes > 20.0 * of_grid);
  CHECK(stacks::limit_need(sampled, true, 1, false).bytes > 20.0 * of_grid);
  CHECK(stacks::limit_need(deeper, true, 1).bytes > 1.5 * stacks::limit_need(stack, true, 1).bytes);
  CHECK(stacks::scaled_limit_need(stack, 1).bytes > 5.0 * stacks::limit_need(stack, false, 1).bytes);
  StackSpec wide = stack;
  wide.model.mlp_width = 1 << 18;
  CHECK(stacks::gram_need(wide.model).bytes > 10.0 * stacks::gram_need(stack.model).bytes);
  CHECK(stacks::gram_need(wide.model).key == "model.mlp_width");
}

TEST_CASE("parts that exist together add up, and of those that follow each other the larger counts") {
  stacks::Need need;
  need.add(3.0, "a");
  need.add(2.0, "b");
  CHECK(need.bytes == 5.0);
  CHECK(need.key == "a");
  need.then({.bytes = 4.0, .key = "c", .largest = 4.0});
  CHECK(need.key == "a");
  need.then({.bytes = 6.0, .key = "c", .largest = 6.0});
  CHECK(need.bytes == 6.0);
  CHECK(need.times(3.0).bytes == 18.0);
  CHECK(need.key == "c");
}

}  // namespace
}  // namespace periscope::testing
