#include "theory/modules/channel_kernel.h"

#include "tests/support/doctest.h"

#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>

#include <cmath>
#include <memory>
#include <vector>

#include "sim/spec/weight_scales.h"
#include "tests/support/significance.h"
#include "tests/theory/xiong.h"
#include "theory/modules/module_kernels.h"

/// Norms with one gain per channel. Whole stacks are compared with simulations in tests/scales.
namespace periscope::theory {
namespace {

using doctest::Approx;

constexpr int channel_count = 64;
constexpr int tokens = 3;

Vector numbers(int seed, double spread) {
  boost::random::mt19937 engine(static_cast<std::uint32_t>(seed));
  boost::random::normal_distribution<double> unit;
  Vector v(channel_count);
  for (double& x : v) x = std::exp(spread * unit(engine)) * (engine() % 4 == 0 ? -1.0 : 1.0);
  return v;
}

TokenKernel some_kernel(double scale, double correlation) {
  Matrix k = Matrix::Constant(tokens, tokens, correlation);
  for (int t = 0; t < tokens; ++t) k(t, t) = 1.0 + 0.5 * t;
  return TokenKernel::of_independent_features(scale * k, channel_count);
}

TEST_CASE("gains correlated with channel sizes count for more than their mean") {
  const Vector b = numbers(1, 0.5);
  const ChannelKernel x = normalised(ChannelKernel{some_kernel(1.0, 0.1)}, {NormKind::rms, 0.0}, {.each = b});
  const Vector c = b.cwiseAbs2();
  const double expected = c.cwiseAbs2().mean() / c.mean();
  CHECK(normalised(x, {NormKind::rms, 0.0}, {.each = b}).total.product(0, 0) == Approx(expected).epsilon(1e-12));
  CHECK(expected > 1.2 * c.mean());
}

TEST_CASE("equal gains, and sums of uniform terms, stay uniform") {
  StackSpec spec = xiong_stack("peri");
  CHECK(norm_gain(spec, 0, Weight::norm_a).is_uniform());
  const ChannelKernel x{some_kernel(1.0, 0.2)};
  const ChannelKernel y = normalised(combined(1.0, x, 1.0, x), {NormKind::rms, 0.0}, {.all = 2.0});
  CHECK(y.is_uniform());
  CHECK(with_bias(y, 0.0, channel_count).is_uniform());
  CHECK(with_bias(y, 2.0, channel_count).total.product(0, 1) == Approx(y.total.product(0, 1) + 4.0).epsilon(1e-14));
}

TEST_CASE("LayerNorm with gains: mean and second moment against a simulation") {
  const Vector c = numbers(3, 0.4);
  const Vector g = numbers(4, 0.4);
  const TokenKernel k = some_kernel(1.0, 0.0);
  const ChannelKernel in = normalised(ChannelKernel{k}, {NormKind::rms, 0.0}, {.each = c});
  const ChannelKernel out = normalised(in, {NormKind::layer, 0.0}, {.each = g});
  boost::random::mt19937 engine(5);
  boost::random::normal_distribution<double> unit;
  std::vector<double> squared_mean;
  std::vector<double> second_moment;
  for (int n = 0; n < 20'000; ++n) {
    Vector x = c;
    for (double& v : x) v *= unit(engine);
    x.array() -= x.mean();
    x = g.cwiseProduct(x) / std::sqrt(x.squaredNorm() / channel_count);
    squared_mean.push_back(x.mean() * x.mean());
    second_moment.push_back(x.squaredNorm() / channel_count);
  }
  // Accurate to order 1/D_eff, here about 10 %.
  CHECK(testing::estimate(squared_mean).mean == Approx(out.total.mean(0, 0)).epsilon(0.15));
  CHECK(testing::estimate(second_moment).mean == Approx(out.total.product(0, 0)).epsilon(0.15));
  // A uniform gain gives mean 0.
  CHECK(normalised(in, {NormKind::layer, 0.0}, {.all = 2.0}).total.mean(0, 0) == 0.0);
}

/// Different standard deviations of matrices, and one gain per channel.
WeightScales uneven_scales(const StackSpec& spec) {
  WeightScales scales;
  for (int l = 0; l < spec.model.layers; ++l) {
    int i = 0;
    for (const Weight w : {Weight::q, Weight::k, Weight::v, Weight::o, Weight::up, Weight::down}) {
      scales.stddev[matrix_id(l, w)] = 0.05 + 0.02 * ++i + 0.03 * l;
    }
  }
  for (int l = 0; l < spec.model.sublayers(); ++l) {
    for (const Weight norm : {Weight::norm_a, Weight::norm_b, Weight::norm_c}) {
      const Vector g = numbers(100 + 3 * l + static_cast<int>(norm), 0.5);
      scales.gains[gain_id(l, norm)] = {g.begin(), g.end()};
    }
  }
  return scales;
}

TEST_CASE("T29: unevenness of each side of a matrix reduces the effective width or hidden width") {
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
    CAPTURE(std::string(name_of(side.weight)));
    CAPTURE(side.rows);
    WeightScales scales;
    for (const Weight one : layer_matrices) scales.stddev[matrix_id(0, one)] = 1.0;
    std::vector<double> sizes(channel_count, 0.0);  // √2 in the first half, 0 in the second: two of four heads
    for (std::size_t i = 0; i < sizes.size() / 2; ++i) sizes[i] = std::sqrt(2.0);
    (side.rows ? scales.profiles[matrix_id(0, side.weight)].rows : scales.profiles[matrix_id(0, side.weight)].columns) =
        sizes;
    spec.scales = std::make_shared<const WeightScales>(scales);
    const ChannelUnevenness loss = channel_unevenness(spec, is_of_mlp(side.weight) ? 1 : 0);
    CHECK(loss.width == Approx(side.of_width).epsilon(1e-12));
    CHECK(loss.hidden == Approx(side.of_hidden).epsilon(1e-12));
  }
}

TEST_CASE("missing scales, and traces with scales, throw") {
  StackSpec spec = xiong_stack("peri");
  WeightScales scales = uneven_scales(spec);
  scales.gains.erase(gain_id(3, Weight::norm_b));
  spec.scales = std::make_shared<const WeightScales>(scales);
  CHECK_THROWS_AS((void)forward_profile(spec, {}), std::logic_error);
  spec.scales = std::make_shared<const WeightScales>(uneven_scales(spec));
  ForwardTrace trace;
  CHECK_THROWS_AS((void)forward_profile(spec, {}, &trace), std::logic_error);
}

}  // namespace
}  // namespace periscope::theory
