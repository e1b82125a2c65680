#include <cmath>
#include <numeric>
#include <vector>

#include "sim/spec/weight_scales.h"
#include "tests/scales/scaled_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "theory/kernels/discrete_rule.h"
#include "theory/modules/module_kernels.h"

/// Compares the theory of single modules with variance profiles (T29) against sums over all hidden channels.
namespace periscope::testing {
namespace {

using theory::ChannelKernel;
using theory::Matrix;
using theory::TokenKernel;
using theory::Vector;

/// Returns e^(log_sd·z), scaled to mean square 1; exactly 1 for log_sd = 0.
std::vector<double> lognormal(std::uint64_t place, std::size_t count, double log_sd) {
  std::vector<double> sizes = normals(place, count);
  for (double& size : sizes) size = std::exp(log_sd * size);
  const double square = std::inner_product(sizes.begin(), sizes.end(), sizes.begin(), 0.0);
  for (double& size : sizes) size /= std::sqrt(square / static_cast<double>(count));
  return sizes;
}

Vector squares(const std::vector<double>& x) {
  return Eigen::Map<const Vector>(x.data(), static_cast<Eigen::Index>(x.size())).cwiseAbs2();
}

StackSpec one_mlp(MlpKind kind, int width, int hidden) {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.model.layers = 1;
  spec.model.width = width;
  spec.model.mlp = kind;
  spec.model.mlp_width = hidden;
  return spec;
}

WeightScales lecun_scales(const StackSpec& spec) {
  WeightScales scales;
  for (const Weight w : {Weight::q, Weight::k, Weight::v, Weight::o, Weight::gate, Weight::up, Weight::down}) {
    scales.stddev[matrix_id(0, w)] = std::sqrt(1.0 / shape_of(spec.model, w).fan_in);
  }
  return scales;
}

TEST_CASE("the Gauss rule of a discrete measure with few distinct points is the measure itself") {
  const Vector places = (Vector(6) << 0.0, 0.3, 0.3, 1.0, 2.5, 4.0).finished();
  const Vector weights = (Vector(6) << 1.0, 0.5, 0.25, 2.0, 0.0, 3.0).finished();
  const theory::DiscreteRule rule = theory::discrete_gauss_rule(places, weights, 6);
  CHECK(rule.nodes.size() == 4);
  const auto f = [](double x) { return std::sin(3.0 * x); };
  CHECK(rule.weights.dot(rule.nodes.unaryExpr(f)) == approx(weights.dot(places.unaryExpr(f))).epsilon(1e-10));
  CHECK(theory::discrete_gauss_rule(places, Vector::Zero(6), 6).nodes.size() == 0);
}

/// Three tokens with a different power in every channel.
ChannelKernel uneven_input(int width, double scale) {
  const Matrix k = scale * (Matrix(3, 3) << 1.0, 0.5, -0.2, 0.5, 2.0, 0.3, -0.2, 0.3, 0.4).finished();
  const Vector power = squares(lognormal(11, static_cast<std::size_t>(width), 0.5));
  const TokenKernel kernel = TokenKernel::of_independent_features(k, width);
  return {kernel, {{power, kernel}}};
}

TEST_CASE("quadrature over an MLP's hidden channels agrees with the full sum (T29)") {
  constexpr int width = 24;
  constexpr int hidden = 300;
  for (const MlpKind kind : {MlpKind::relu, MlpKind::gelu, MlpKind::swiglu, MlpKind::geglu}) {
    for (const double log_sd : {0.3, 0.6, 1.0}) {
      for (const double scale : {0.1, 1.0, 20.0}) {
        StackSpec spec = one_mlp(kind, width, hidden);
        WeightScales scales = lecun_scales(spec);
        const bool gated = is_gated(kind);
        VarianceProfile gate{lognormal(1, hidden, log_sd), lognormal(2, width, log_sd)};
        VarianceProfile up{lognormal(3, hidden, log_sd), lognormal(4, width, log_sd)};
        const VarianceProfile down{lognormal(5, width, log_sd), lognormal(6, hidden, log_sd)};
        gate.rows[7] = up.rows[9] = 0.0;  // a channel without input
        if (gated) scales.profiles[matrix_id(0, Weight::gate)] = gate;
        scales.profiles[matrix_id(0, Weight::up)] = up;
        scales.profiles[matrix_id(0, Weight::down)] = down;
        scales.stddev[bias_of(matrix_id(0, Weight::up))] = 0.3;
        if (gated) scales.stddev[bias_of(matrix_id(0, Weight::gate))] = 0.2;
        spec = with(spec, scales);
        const ChannelKernel input = uneven_input(width, scale);
        const auto read = [&](const VarianceProfile& by) {
          return Matrix(squares(by.columns).dot(input.terms[0].power) / width * input.terms[0].kernel.product);
        };
        Matrix expected = Matrix::Zero(3, 3);
        for (int j = 0; j < hidden; ++j) {
          const auto i = static_cast<std::size_t>(j);
          const Matrix of_up = (up.rows[i] * up.rows[i] * read(up)).array() + 0.3 * 0.3;
          const Matrix of_gate = gated ? Matrix((gate.rows[i] * gate.rows[i] * read(gate)).array() + 0.2 * 0.2) : of_up;
          Matrix phi = theory::activation_kernel(activation_of(kind), of_gate);
          if (gated) phi = phi.cwiseProduct(of_up);
          expected += down.columns[i] * down.columns[i] / hidden * phi;
        }
        const ChannelKernel f = theory::mlp_kernel(spec, 0, input);
        INFO("kind := ", static_cast<int>(kind), ", log_sd := ", log_sd, ", scale := ", scale);
        CHECK((f.total.product - expected).cwiseAbs().maxCoeff() < 1e-6 * expected.cwiseAbs().maxCoeff());
        REQUIRE(f.terms.size() == 1);
        CHECK((f.terms[0].power - squares(down.rows)).cwiseAbs().maxCoeff() == 0.0);
      }
    }
  }
}

}  // namespace
}  // namespace periscope::testing
