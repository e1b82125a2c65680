#include <cmath>
#include <vector>

#include "tests/support/doctest.h"
#include "tests/support/targets.h"

namespace periscope::testing {
namespace {

constexpr AdamRule rule{
    .rate = 0.1, .decay = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .gradient_scale = 1.0, .step = 3};

TEST_CASE("AdamW by hand: means, their corrections for step 3, decay of the parameter before the update") {
  for (const Target& target : targets()) {
    const Backend& ops = *target.backend;
    const auto one = [&](double value) { return ops.from_host(1, 1, target.dtype, std::vector{value}); };
    AdamRule halved = rule;
    halved.gradient_scale = 0.5;
    const AdamState s = ops.adamw({.parameter = one(2.0), .mean = one(0.3), .square = one(0.2)}, one(1.6), halved);
    const double mean = 0.9 * 0.3 + 0.1 * 0.8;
    const double square = 0.95 * 0.2 + 0.05 * 0.64;
    const double step = 0.1 * (mean / (1.0 - 0.729)) / (std::sqrt(square / (1.0 - 0.857375)) + 1e-8);
    const double unit = target.dtype == DType::f64 ? 1e-14 : 1e-6;
    INFO(target.name());
    CHECK(ops.to_host(s.mean)[0] == doctest::Approx(mean).epsilon(unit));
    CHECK(ops.to_host(s.square)[0] == doctest::Approx(square).epsilon(unit));
    CHECK(ops.to_host(s.parameter)[0] == doctest::Approx(0.99 * 2.0 - step).epsilon(unit));
  }
}

TEST_CASE("AdamW scales a gradient before it squares it: clipping tames what the type cannot square") {
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
