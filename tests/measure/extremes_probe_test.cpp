#include "sim/measure/extremes_probe.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;

TEST_CASE("extremes: which token, which feature, how far above the median, at every depth") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.model.layers = 1;
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const StackContext context{.ops = truth(), .model = spec.model, .weights = weights};
  const auto rows = [&](const Values& v) { return truth().from_host(2, 3, DType::f64, v); };
  ExtremesProbe probe(context, 2);
  probe.on_input(rows({1, -2, 3, 4, -5, 6}));
  probe.on_site(0, Site::f_out, rows({9, 9, 9, 9, 9, 9}));
  probe.on_site(0, Site::x_out, rows({0, -7, 0, 2, 7, 1}));
  probe.on_site(1, Site::x_out, rows({1, 1, 1, 1, 1, 1}));
  REQUIRE(probe.depths().size() == 3);
  CHECK(probe.depths()[0].top == std::vector<Entry>{{1, 2, 6.0}, {1, 1, -5.0}});
  CHECK(probe.depths()[0].median == 3.5);
  CHECK(probe.depths()[1].top == std::vector<Entry>{{0, 1, -7.0}, {1, 1, 7.0}});
  CHECK(probe.depths()[1].median == 1.5);
}

TEST_CASE("massive: above 100 and a thousand times the median; what is not finite is") {
  CHECK(is_massive({0, 0, -500.0}, 0.5));
  CHECK_FALSE(is_massive({0, 0, 499.0}, 0.5));
  CHECK_FALSE(is_massive({0, 0, 100.0}, 0.001));
  CHECK(is_massive({0, 0, std::numeric_limits<double>::quiet_NaN()}, 0.5));
  CHECK(is_massive({0, 0, std::numeric_limits<double>::infinity()}, 0.5));
}

}  // namespace
}  // namespace periscope::testing
