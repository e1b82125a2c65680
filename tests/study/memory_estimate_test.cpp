#include <limits>

#include "experiments/engine/run/memory_estimate.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const std::size_t least = StackTape().budget;

/// A stack with several GB of signals: 16 layers of 2048 features, 2048 tokens.
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

TEST_CASE("without --memory the tape budget is 2.8 GB for the whole pass, or half of the available memory") {
  const double kept = budget(backward(), 64e9);
  CHECK(kept > 1e9);
  CHECK(kept + stacks::reading_memory(large_stack(), backward(), 1, 2).bytes == approx(2.8e9));
  CHECK(budget(backward(), infinity) == kept);
  CHECK(budget(backward(), 5e9) == approx(kept - 0.3e9));
}

TEST_CASE("with --memory the tape budget is at most 0.8 of the available memory") {
  config::RunOptions run = backward();
  run.memory = 5e9;
  const double kept = budget(run, 64e9);
  CHECK(kept == approx(budget(backward(), 64e9) + 2.2e9));
  CHECK(budget(run, 5e9) == approx(kept - 1e9));
  run.memory = 1e30;
  CHECK(budget(run, infinity) == 0x1p62);
}

TEST_CASE("the tape budget is the minimum if memory is insufficient") {
  config::RunOptions asked = backward();
  asked.memory = 1.0;
  for (const double available : {0.0, -1e9, 1e6, 1e9}) {
    CHECK(budget(backward(), available) == least);
    CHECK(budget(asked, available) == least);
  }
}

TEST_CASE("without --memory the tape budget is the minimum on a GPU and for matrix-free and forward passes") {
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

TEST_CASE("concurrent seeds share the tape budget") {
  StackSpec small = large_stack();
  small.model = {.layers = 64, .width = 1024, .heads = 16, .kv_heads = 16, .head_dim = 64, .mlp_width = 1024};
  const auto kept = [&](int seeds) {
    return static_cast<double>(stacks::tape_budget(small, backward(), seeds, 2, 64e9));
  };
  CHECK(kept(1) - kept(2) == approx(1.4e9).epsilon(0.02));  // two seeds share 2.8 GB, with one thread fewer per pass
  CHECK(kept(8) == kept(2));
}

TEST_CASE("the memory estimate adds concurrent parts and takes the larger of consecutive phases") {
  stacks::MemoryEstimate memory;
  memory.add(3.0, "a");
  memory.add(2.0, "b");
  CHECK(memory.bytes == 5.0);
  CHECK(memory.key == "a");
  memory.add_phase({.bytes = 4.0, .key = "c", .largest = 4.0});
  CHECK(memory.key == "a");
  memory.add_phase({.bytes = 6.0, .key = "c", .largest = 6.0});
  CHECK(memory.bytes == 6.0);
  CHECK(memory.times(3.0).bytes == 18.0);
  CHECK(memory.key == "c");
}

}  // namespace
}  // namespace periscope::testing
