#include "theory/modules/channel_kernel.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <memory>
#include <vector>

#include "sim/spec/weight_scales.h"
#include "tests/theory/xiong.h"
#include "theory/modules/module_kernels.h"

/// Norms with one gain per channel. Whole stacks are compared with simulations in tests/scales.
namespace periscope::theory {
namespace {

constexpr int channel_count = 64;

TEST_CASE("equal gains and sums of uniform terms give uniform kernels") {
  CHECK(norm_gain(xiong_stack("peri"), 0, Weight::norm_a).is_uniform());
  Matrix k(2, 2);
  k << 1.0, 0.2, 0.2, 1.5;
  const ChannelKernel x{TokenKernel::of_independent_features(k, channel_count)};
  const ChannelKernel y = normalised(combined(1.0, x, 1.0, x), {NormKind::rms, 0.0}, {.all = 2.0});
  CHECK(y.is_uniform());
  CHECK(with_bias(y, 0.0, channel_count).is_uniform());
  CHECK(with_bias(y, 2.0, channel_count).total.product(0, 1) == approx(y.total.product(0, 1) + 4.0).epsilon(1e-14));
}

TEST_CASE("unevenness of each side of a matrix reduces the effective width or hidden width (T29)") {
  StackSpec spec = xiong_stack("pre");
  spec.model.mlp = MlpKind::swiglu;
  struct Side {
    Weight weight;
    bool rows;
    double of_width, of_hidden;
  };
  for (const Side& side :
       {Side{Weight::q, false, 2.0, 1.0}, Side{Weight::k, false, 2.0, 1.0}, Side{Weight::v, false, 2.0, 1.0},
        Side{Weight::q, true, 1.0, 1.0}, Side{Weight::o, true, 2.0, 1.0}, Side{Weight::v, true, 1.0, 2.0},
        Side{Weight::o, false, 1.0, 2.0}, Side{Weight::gate, false, 2.0, 1.0}, Side{Weight::up, false, 2.0, 1.0},
        Side{Weight::gate, true, 1.0, 2.0}, Side{Weight::up, true, 1.0, 2.0}, Side{Weight::down, true, 2.0, 1.0},
        Side{Weight::down, false, 1.0, 2.0}}) {
    INFO("std::string(name_of(side.weight)) := ", std::string(name_of(side.weight)), ", side.rows := ", side.rows);
    WeightScales scales;
    for (const Weight one : layer_matrices) scales.stddev[matrix_id(0, one)] = 1.0;
    std::vector<double> sizes(channel_count, 0.0);  // √2 for two of four heads, 0 for the others
    for (std::size_t i = 0; i < sizes.size() / 2; ++i) sizes[i] = std::sqrt(2.0);
    (side.rows ? scales.profiles[matrix_id(0, side.weight)].rows : scales.profiles[matrix_id(0, side.weight)].columns) =
        sizes;
    spec.scales = std::make_shared<const WeightScales>(scales);
    const ChannelUnevenness loss = channel_unevenness(spec, is_of_mlp(side.weight) ? 1 : 0);
    CHECK(loss.width == approx(side.of_width).epsilon(1e-12));
    CHECK(loss.hidden == approx(side.of_hidden).epsilon(1e-12));
  }
}

TEST_CASE("missing scales, and traces with scales, throw") {
  StackSpec spec = xiong_stack("peri");
  WeightScales scales;
  for (int l = 0; l < spec.model.layers; ++l) {
    for (const Weight w : {Weight::q, Weight::k, Weight::v, Weight::o, Weight::up, Weight::down}) {
      scales.stddev[matrix_id(l, w)] = 0.1;
    }
  }
  for (int l = 0; l < spec.model.sublayers(); ++l) {
    for (const Weight norm : {Weight::norm_a, Weight::norm_b}) {
      scales.gains[gain_id(l, norm)] = std::vector<double>(channel_count, 1.5);
    }
  }
  spec.scales = std::make_shared<const WeightScales>(scales);
  ForwardTrace trace;
  CHECK_NOTHROW((void)forward_profile(spec, {}));
  CHECK_THROWS_AS((void)forward_profile(spec, {}, &trace), std::logic_error);
  scales.gains.erase(gain_id(3, Weight::norm_b));
  spec.scales = std::make_shared<const WeightScales>(scales);
  CHECK_THROWS_AS((void)forward_profile(spec, {}), std::logic_error);
}

}  // namespace
}  // namespace periscope::theory
