#include <cmath>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/targets.h"

namespace periscope::testing {
namespace {

constexpr AdamRule rule{
    .rate = 0.1, .decay = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .gradient_scale = 1.0, .step = 3};

TEST_CASE("adamw: a gradient is scaled before it is squared, so that clipping prevents overflow") {
  for (const Target& target : targets()) {
    const Backend& ops = *target.backend;
    const auto all = [&](double value) { return ops.constant(1, 20, target.dtype, value); };
    AdamRule clipped = rule;
    clipped.gradient_scale = 1e-30;
    const AdamState s = ops.adamw({.parameter = all(1.0), .mean = all(0.0), .square = all(0.0)}, all(1e30), clipped);
    INFO(target.name());
    CHECK(ops.to_host(s.square)[0] == doctest::Approx(0.05).epsilon(1e-5));
    CHECK(std::isfinite(ops.to_host(s.parameter)[0]));
  }
}

}  // namespace
}  // namespace periscope::testing
