#include "sim/measure/extremes_probe.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <limits>
#include <vector>

#include "sim/measure/signal_store.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;

TEST_CASE("extremes probe: records the median and the token and feature of the largest entries at every depth") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.model.layers = 1;
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const StackContext context{.ops = truth(), .model = spec.model, .weights = weights};
  const auto rows = [&](const Values& v) { return truth().from_host(2, 3, DType::f64, v); };
  ExtremesProbe probe(context, 2);
  probe.on_signal({-1, Signal::x_out, Pass::forward}, rows({1, -2, 3, 4, -5, 6}));
  probe.on_signal({0, Signal::scores, Pass::forward}, rows({3, 0, 8, 1, 4, 5}));  // 2 tokens, 3 heads
  probe.on_signal({0, Signal::f_out, Pass::forward}, rows({9, 9, 9, 9, 9, 9}));
  probe.on_signal({0, Signal::x_out, Pass::forward}, rows({0, -7, 0, 2, 7, 1}));
  probe.on_signal({1, Signal::x_out, Pass::forward}, rows({1, 1, 1, 1, 1, 1}));
  const Extremes all = probe.take();
  CHECK(all.scores == Values{3, 4, 8});
  const std::vector<StreamExtremes>& depths = all.depths;
  REQUIRE(depths.size() == 3);
  CHECK(depths[0].top == std::vector<Entry>{{1, 2, 6.0}, {1, 1, -5.0}});
  CHECK(depths[0].median == 3.5);
  CHECK(depths[1].top == std::vector<Entry>{{0, 1, -7.0}, {1, 1, 7.0}});
  CHECK(depths[1].median == 1.5);
}

TEST_CASE("extremes probe: maxima inside modules equal maxima of the recorded signals") {
  for (const MlpKind mlp : {MlpKind::swiglu, MlpKind::relu}) {
    StackSpec spec = placed(tiny_stack(), "peri");
    spec.model.mlp = mlp;
    const GeneratedWeights weights(truth(), spec, DType::f64, 1);
    const StackContext context{.ops = truth(), .model = spec.model, .weights = weights};
    ExtremesProbe probe(context, 1);
    const Tensor input = gaussian_input(truth(), spec, DType::f64, 1);
    SignalStore signals(Pass::forward);
    (void)stack_forward(context, input, {.recorders = {&probe, &signals}});
    const auto inside = probe.take().inside;
    const auto check = [&](Signal place, int sublayer) {
      const Values& maxima = inside.at(place);
      REQUIRE(maxima.size() == 4);
      CHECK(maxima[static_cast<std::size_t>(sublayer)] ==
            truth().statistics_of(signals.at(sublayer, place), {.top_magnitudes = 1}).top_magnitudes[0]);
      CHECK(std::isnan(maxima[static_cast<std::size_t>(1 - sublayer)]));
    };
    check(Signal::q, 0);
    check(Signal::k, 0);
    check(Signal::v, 0);
    check(Signal::mixed, 0);
    check(Signal::up, 1);
    check(Signal::hidden, 1);
    CHECK(inside.contains(Signal::gate) == (mlp == MlpKind::swiglu));
    if (mlp == MlpKind::swiglu) check(Signal::gate, 1);
  }
}

TEST_CASE("massive activations exceed 100 and also 1000 times the median; infinity counts, NaN does not") {
  CHECK(is_massive({0, 0, -500.0}, 0.5));
  CHECK_FALSE(is_massive({0, 0, 499.0}, 0.5));
  CHECK_FALSE(is_massive({0, 0, 100.0}, 0.001));
  CHECK_FALSE(is_massive({0, 0, std::numeric_limits<double>::quiet_NaN()}, 0.5));
  CHECK(is_massive({0, 0, std::numeric_limits<double>::infinity()}, 0.5));
}

}  // namespace
}  // namespace periscope::testing
