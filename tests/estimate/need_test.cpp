#include "experiments/core/stacks/need.h"

#include "tests/support/doctest.h"

/// What single terms of the estimate of memory grow with, on machines of any size.
namespace periscope::testing {
namespace {

/// A deep stack, whose signals are nearly all that it needs.
config::Config deep_stack() {
  config::Config config;
  config.base.model = {.layers = 64, .width = 256, .heads = 4, .kv_heads = 4, .head_dim = 64, .mlp_width = 1024};
  config.base.model.vocab = 8;
  config.base.input.tokens = 512;
  config.placements = {*find_placement("pre")};
  config.inputs = {InputKind::gaussian};
  config.run.seeds = 1;
  return config;
}

TEST_CASE("passes that are compared keep the backward pass's signals beside those of the forward pass") {
  config::Config config = deep_stack();
  config.run.dtype = DType::f64;
  const double pass = 64e6;  // of the tape: at least so much is allowed
  const auto kept = [&](bool backward) {
    config.run.backward = backward;
    return stacks::compared_passes_need(config, 2.0, 1).bytes -
           stacks::reading_need(config.stacks().front(), config.run, 1, 1, pass).bytes;
  };
  const double forward = kept(false);
  CHECK(forward > 0.0);
  CHECK(kept(true) == doctest::Approx(2.0 * forward).epsilon(0.02));
}

TEST_CASE("what a need grows with") {
  const config::Config config = deep_stack();
  const auto bytes_of = [&](const auto& need, const auto& edit) {
    config::Config other = config;
    edit(other);
    return need(other).bytes;
  };
  const auto same = [](config::Config&) {};
  const auto more_tokens = [](config::Config& c) { c.base.input.tokens *= 2; };
  const auto more_layers = [](config::Config& c) { c.base.model.layers *= 2; };
  const auto kept_reading = [](const config::Config& c) {
    return stacks::kept_reading_need(c.stacks().front(), c.run, c.run.seeds, 1);
  };
  CHECK(bytes_of(kept_reading, more_tokens) == doctest::Approx(2.0 * bytes_of(kept_reading, same)).epsilon(0.05));
  CHECK(bytes_of(kept_reading, more_layers) > 1.5 * bytes_of(kept_reading, same));
  const auto limit = [](const config::Config& c) { return stacks::limit_need(c.stacks().front(), false, 1, 1); };
  CHECK(bytes_of(limit, more_tokens) > 3.0 * bytes_of(limit, same));  // kernels are of pairs of tokens
  const auto one_width = [](const config::Config& c) { return stacks::widths_need(c, {256}, "list", 1, 1); };
  const auto two_widths = [](const config::Config& c) { return stacks::widths_need(c, {256, 4096}, "list", 1, 1); };
  CHECK(bytes_of(two_widths, same) > bytes_of(one_width, same));
  const auto gram = [](const config::Config& c) { return stacks::gram_need(c.base.model); };
  const auto wide = [](config::Config& c) { c.base.model.mlp_width = 1 << 14; };
  CHECK(bytes_of(gram, wide) > 10.0 * bytes_of(gram, same));
}

}  // namespace
}  // namespace periscope::testing
