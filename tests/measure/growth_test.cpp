#include "sim/measure/model_reading.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;

StackSpec two_wide(std::string_view placement) {
  StackSpec spec = placed(tiny_stack(), placement);
  spec.model.layers = 1;
  spec.model.width = 2;
  return spec;
}

/// Returns the growth of sublayer 0 of a stack of width 2 for hand-made signals.
Growth growth_of(const StackSpec& spec, const Values& x, const Values& branch, const Values& x_out,
                 DType dtype = DType::f64) {
  const Backend& ops = dtype == DType::f64 ? truth() : *targets().front().backend;
  const GeneratedWeights weights(ops, spec, dtype, 1);
  const StackContext context{.ops = ops, .model = spec.model, .weights = weights};
  const auto rows = [&](const Values& v) {
    return ops.from_host(static_cast<Tensor::Index>(v.size() / 2), 2, dtype, v);
  };
  Probe probe(context, true);
  const SublayerRule rule = spec.model.rule(0);
  const Tensor sum = rule.norm_c ? ops.axpby(rule.alpha, rows(x), rule.beta, rows(branch)) : rows(x_out);
  probe.on_signal({-1, Signal::x_out, Pass::forward}, rows(x));
  probe.on_signal({0, Signal::x_in, Pass::forward}, rows(x));
  probe.on_signal({0, Signal::A_out, Pass::forward}, rows(branch));
  probe.on_signal({0, Signal::f_out, Pass::forward}, rows(x));
  probe.on_signal({0, Signal::B_out, Pass::forward}, rows(branch));
  probe.on_signal({0, Signal::sum, Pass::forward}, sum);
  probe.on_signal({0, Signal::x_out, Pass::forward}, rows(x_out));
  (void)probe.take();
  return probe.growth().front();
}

TEST_CASE("growth identity: means of the terms over tokens match hand-computed values") {
  // Tokens (1, 0) + (3, 4) and (0, 2) + (−3, 3) have q = 1/2 and 2, s² = 25/2 and 9, ⟨x, b⟩/D = 3/2 and 3.
  const Growth g = growth_of(two_wide("peri"), {1, 0, 0, 2}, {3, 4, -3, 3}, {4, 4, -3, 5});
  CHECK((g.stream == 1.25 && g.branch == 10.75 && g.cross == 4.5 && g.sum == 16.5 && g.residual == 0.0));
  CHECK_FALSE(g.is_violated());
  StackSpec spec = two_wide("none");
  spec.model.placement = custom_placement({.alpha = 0.5, .beta = -2.0});
  const Growth scaled = growth_of(spec, {4, 2}, {1, 3}, {0, -5});
  CHECK((scaled.stream == 2.5 && scaled.branch == 20.0 && scaled.cross == -10.0));
  CHECK((scaled.sum == 12.5 && scaled.residual == 0.0));
  CHECK(growth_of(two_wide("post"), {1, 0}, {3, 4}, {100, 100}).sum == 16.0);  // before norm C
}

TEST_CASE("growth identity: small errors of the sum violate it, non-finite signals do not") {
  const auto violated = [](double end, DType dtype = DType::f64) {
    return growth_of(two_wide("peri"), {1, 0}, {3, 4}, {4, end}, dtype).is_violated();
  };
  CHECK(violated(4.001));
  CHECK(violated(4 * (1 + 1e-13)));
  CHECK(violated(4 * (1 + 1e-5), DType::f32));
  CHECK_FALSE(violated(4 * (1 + 1e-7), DType::f32));
  CHECK(growth_of(two_wide("peri"), {0, 0}, {0, 0}, {0, 1e-9}).is_violated());
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Growth g = growth_of(two_wide("peri"), {1, 0}, {infinity, 4}, {infinity, 4});
  CHECK(std::isnan(g.residual));
  CHECK_FALSE(g.is_violated());
}

TEST_CASE("growth identity holds up to rounding for every placement and dtype") {
  for (const Target& target : targets()) {
    for (const Placement& placement : placement_table()) {
      if (!is_plain(placement)) continue;
      CAPTURE(placement.name);
      StackSpec spec = placed(tiny_stack(), placement.name);
      const GeneratedWeights weights(*target.backend, spec, target.dtype, 3);
      const StackContext context{.ops = *target.backend, .model = spec.model, .weights = weights};
      Probe probe(context, true);
      (void)stack_forward(context, gaussian_input(*target.backend, spec, target.dtype, 3), {.recorders = {&probe}});
      (void)probe.take();
      const std::vector<Growth> sublayers = probe.growth();
      REQUIRE(sublayers.size() == 4);
      for (const Growth& g : sublayers) {
        CHECK(std::isfinite(g.residual));
        CHECK_FALSE(g.is_violated());
        CHECK(g.sum == approx(g.stream + g.branch + g.cross).epsilon(target.dtype == DType::f64 ? 1e-13 : 1e-5));
        CHECK(g.branch > 0.0);
      }
    }
  }
}

TEST_CASE("branch size from gains matches hand-computed values") {
  StackSpec spec = two_wide("peri");
  spec.model.norm = NormKind::layer;
  const GeneratedWeights drawn(truth(), spec, DType::f64, 1);
  const auto edit = [](int sublayer, Weight site, const NormWeights& w) {
    if (site != Weight::norm_b) return w;
    const Values gain = sublayer == 0 ? Values{3, -1} : Values{2, 2};
    const Values bias = sublayer == 0 ? Values{1, 2} : Values{0, 0};
    return NormWeights{.gain = truth().from_host(1, 2, DType::f64, gain),
                       .bias = truth().from_host(1, 2, DType::f64, bias)};
  };
  const EditedWeights weights(drawn, same_matrix, edit);
  const StackContext context{.ops = truth(), .model = spec.model, .weights = weights};
  CHECK(branch_size_from_gains(context) == Values{7.5, 4.0});
}

TEST_CASE("branch size from gains is proportional to beta squared, and NaN without norm B") {
  StackSpec spec = two_wide("pre");
  const auto sizes = [&] {
    const GeneratedWeights weights(truth(), spec, DType::f64, 1);
    return branch_size_from_gains({.ops = truth(), .model = spec.model, .weights = weights});
  };
  CHECK(std::isnan(sizes()[0]));
  spec.model.placement = custom_placement({.norm_b = true, .beta = 0.5});
  spec.model.gamma = 0.8;
  CHECK(sizes()[1] == approx(0.16));
  spec.model.norm = NormKind::l2;
  CHECK(sizes()[1] == approx(0.08));  // half of 0.16: L2 norm 1, so the mean square of two features is 1/2
}

}  // namespace
}  // namespace periscope::testing
