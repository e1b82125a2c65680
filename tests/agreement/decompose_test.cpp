#include "experiments/studies/gradients/decompose.h"

#include <cmath>

#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

const std::vector<int> labels{1, 2, 3, 4, 5};

gradients::GradientPathSizes sizes_of(const StackSpec& spec, std::uint64_t seed) {
  const GeneratedWeights weights(truth(), spec, DType::f64, seed);
  return gradients::decompose_gradient({truth(), spec.model, weights, 1},
                                       gaussian_input(truth(), spec, DType::f64, seed), labels);
}

}  // namespace

TEST_CASE("for single-stream placements, the gradient paths sum to the gradient and no path is negligible (G11)") {
  for (const Placement& placement : placement_table()) {
    if (placement.wiring == Wiring::dual || !is_plain(placement)) continue;
    CAPTURE(placement.name);
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      const gradients::GradientPathSizes p = sizes_of(placed(tiny_stack(), placement.name), seed);
      REQUIRE(p.total.size() == 5);
      // Each of 4 sublayers rounds at most 6 sums of at most 24 terms; 2.3e-16 bounds one relative rounding error.
      CHECK(p.error < 4 * 6 * 24 * 2.3e-16);
      for (const double b : p.branch) CHECK(b > 1e-8 * p.total.back());  // well above the rounding error of the sum
      CHECK(p.skip.back() == p.total.back());
      CHECK(p.rest.back() == 0.0);
    }
  }
}

TEST_CASE("the skip path is the identity if and only if no norm follows the residual sum (G11)") {
  for (const char* name : {"none", "pre", "peri", "b-only", "lns", "depth-scaled"}) {
    const gradients::GradientPathSizes p = sizes_of(placed(tiny_stack(), name), 4);
    for (const double s : p.skip) CHECK(s == p.skip.back());
  }
  for (const char* name : {"post", "a+c", "deepnorm"}) {
    const gradients::GradientPathSizes p = sizes_of(placed(tiny_stack(), name), 4);
    CHECK(std::abs(p.skip.front() / p.skip.back() - 1.0) > 1e-3);
  }
}

}  // namespace periscope::testing
