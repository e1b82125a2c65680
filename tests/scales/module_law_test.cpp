#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "sim/random/normal.h"
#include "sim/spec/weight_scales.h"
#include "tests/scales/scaled_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/hypothesis.h"
#include "tests/support/recorded_stack.h"
#include "theory/kernels/discrete_rule.h"
#include "theory/modules/module_kernels.h"

/// T29 for one module alone: against loops over all hidden channels, and against draws of this test's own.
namespace periscope::testing {
namespace {

using theory::ChannelKernel;
using theory::Matrix;
using theory::TokenKernel;
using theory::Vector;

/// e^(log_sd·z) at mean square 1; exactly 1 for log_sd = 0.
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

TEST_CASE("the Gauss rule of a discrete measure: exact for polynomials, and for few places for everything") {
  const Vector places = (Vector(6) << 0.0, 0.3, 0.3, 1.0, 2.5, 4.0).finished();
  const Vector weights = (Vector(6) << 1.0, 0.5, 0.25, 2.0, 0.0, 3.0).finished();
  const auto sum = [&](const Vector& x, const Vector& w, const auto& f) {
    double all = 0.0;
    for (Eigen::Index i = 0; i < x.size(); ++i) all += w(i) * f(x(i));
    return all;
  };
  for (int most = 1; most <= 4; ++most) {
    const theory::DiscreteRule rule = theory::discrete_gauss_rule(places, weights, most);
    REQUIRE(rule.nodes.size() == most);
    for (int power = 0; power < 2 * most; ++power) {
      const auto f = [&](double x) { return std::pow(x, power); };
      CHECK(sum(rule.nodes, rule.weights, f) == doctest::Approx(sum(places, weights, f)).epsilon(1e-12));
    }
  }
  // Four places have a weight: the rule is the measure itself.
  const theory::DiscreteRule rule = theory::discrete_gauss_rule(places, weights, 6);
  CHECK(rule.nodes.size() == 4);
  const auto f = [](double x) { return std::sin(3.0 * x); };
  CHECK(sum(rule.nodes, rule.weights, f) == doctest::Approx(sum(places, weights, f)).epsilon(1e-10));
  CHECK(theory::discrete_gauss_rule(places, Vector::Zero(6), 6).nodes.size() == 0);
}

/// Three tokens with a power of their own in every channel.
ChannelKernel uneven_input(int width, double scale) {
  const Matrix k = scale * (Matrix(3, 3) << 1.0, 0.5, -0.2, 0.5, 2.0, 0.3, -0.2, 0.3, 0.4).finished();
  const Vector power = squares(lognormal(11, static_cast<std::size_t>(width), 0.5));
  const TokenKernel kernel = TokenKernel::of_independent_features(k, width);
  return {kernel, {{power, kernel}}};
}

TEST_CASE("T29, MLPs: the rule over hidden channels is the sum over all of them") {
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
        gate.rows[7] = up.rows[9] = 0.0;  // a channel that nothing drives
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
        CAPTURE(static_cast<int>(kind));
        CAPTURE(log_sd);
        CAPTURE(scale);
        CHECK((f.total.product - expected).cwiseAbs().maxCoeff() < 1e-6 * expected.cwiseAbs().maxCoeff());
        REQUIRE(f.terms.size() == 1);
        CHECK((f.terms[0].power - squares(down.rows)).cwiseAbs().maxCoeff() == 0.0);
      }
    }
  }
}

TEST_CASE("T29, attention that is uniform: values' rows meet W_o's columns head by head, columns meet powers") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.model.layers = 1;
  spec.model.width = 12;
  spec.model.heads = 4;
  spec.model.kv_heads = 2;
  spec.model.head_dim = 3;
  spec.model.rope = false;
  WeightScales scales = lecun_scales(spec);
  scales.stddev[matrix_id(0, Weight::q)] = 0.0;
  const VarianceProfile v{lognormal(1, 6, 0.5), lognormal(2, 12, 0.5)};
  const VarianceProfile o{lognormal(3, 12, 0.5), lognormal(4, 12, 0.5)};
  scales.profiles = {{matrix_id(0, Weight::v), v}, {matrix_id(0, Weight::o), o}};
  scales.stddev[bias_of(matrix_id(0, Weight::v))] = 0.4;
  spec = with(spec, scales);
  const ChannelKernel input = uneven_input(12, 1.0);
  const theory::AttentionAverage average(theory::PatternLaw{.query_variance = 0.0,
                                                            .key_variance = 1.0,
                                                            .head_dim = 3,
                                                            .query_heads = 4,
                                                            .key_heads = 2,
                                                            .qk_norm = QkNorm::none,
                                                            .norm_eps = 0.0,
                                                            .rope = false,
                                                            .causal = true},
                                         3);
  const ChannelKernel f = theory::attention_kernel(spec, 0, average, input, 2, {0, 0, 0});
  Matrix pattern(3, 3);
  pattern << 1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 1.0 / 3, 1.0 / 3, 1.0 / 3;
  double weight = 0.0;
  for (std::size_t j = 0; j < 12; ++j) {
    const std::size_t value = j / 3 / 2 * 3 + j % 3;  // heads 0 and 1 read the first values, 2 and 3 the second
    weight += std::pow(o.columns[j] * v.rows[value], 2) / 12.0;
  }
  const Matrix k = squares(v.columns).dot(input.terms[0].power) / 12.0 * input.terms[0].kernel.product;
  const Matrix expected = (weight * pattern * k * pattern.transpose()).array() + 0.4 * 0.4;
  CHECK((f.total.product - expected).cwiseAbs().maxCoeff() < 1e-13);
  REQUIRE(f.terms.size() == 1);
  CHECK((f.terms[0].power - squares(o.rows)).cwiseAbs().maxCoeff() == 0.0);
}

/// The law of one SwiGLU MLP of D = 256 and h = 1024 at LeCun's variances, whose matrices share profiles: a of the
/// channels in the input's gains, the columns of W_gate and W_up and the rows of W_down; b of the hidden channels in
/// the rows of W_gate and W_up and the columns of W_down.
struct SharedProfiles {
  static constexpr int width = 256;
  static constexpr int hidden = 1024;
  explicit SharedProfiles(double log_sd)
      : channel(lognormal(21, width, log_sd)), inside(lognormal(22, hidden, log_sd)) {}
  std::vector<double> channel;
  std::vector<double> inside;

  /// As theory has it; `edit` changes what it is told.
  template <class Edit>
  [[nodiscard]] double law(double input, const Edit& edit) const {
    StackSpec spec = one_mlp(MlpKind::swiglu, width, hidden);
    WeightScales scales = lecun_scales(spec);
    for (const Weight w : {Weight::gate, Weight::up}) scales.profiles[matrix_id(0, w)] = {inside, channel};
    scales.profiles[matrix_id(0, Weight::down)] = {channel, inside};
    edit(scales);
    spec = with(spec, scales);
    const TokenKernel kernel = TokenKernel::of_independent_features(Matrix::Constant(1, 1, input), width);
    const Vector power = squares(channel);
    const ChannelKernel x{{power.mean() * kernel.product, power.mean() * kernel.mean}, {{power, kernel}}};
    return theory::mlp_kernel(spec, 0, x).total.product(0, 0);
  }
  [[nodiscard]] double law(double input = 1.0) const {
    return law(input, [](WeightScales&) {});
  }
};

/// The second moment of that MLP's output in plain loops, `count` draws of everything: the input is a Gaussian vector
/// behind an RMSNorm with the channels' gains.
std::vector<double> drawn_second_moments(const SharedProfiles& p, std::uint64_t seed, int count) {
  constexpr auto d = static_cast<std::size_t>(SharedProfiles::width);
  constexpr auto h = static_cast<std::size_t>(SharedProfiles::hidden);
  std::vector<double> all;
  std::vector<double> x(d);
  std::vector<double> w(2 * d);
  std::vector<double> of_hidden(h);
  for (int n = 0; n < count; ++n) {
    const StreamKey key{seed, static_cast<std::uint32_t>(n), Stream::verify_case};
    std::uint64_t place = 0;
    const auto draw = [&](std::vector<double>& out, double stddev) {
      fill_normal<double>(key, place, stddev, out);
      place += out.size();
    };
    draw(x, 1.0);
    const double rms = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / d);
    for (std::size_t k = 0; k < d; ++k) x[k] *= p.channel[k] / rms;
    for (std::size_t j = 0; j < h; ++j) {
      draw(w, std::sqrt(1.0 / d));
      double gate = 0.0;
      double up = 0.0;
      for (std::size_t k = 0; k < d; ++k) {
        gate += w[k] * p.channel[k] * x[k];
        up += w[d + k] * p.channel[k] * x[k];
      }
      gate *= p.inside[j];
      up *= p.inside[j];
      of_hidden[j] = gate / (1.0 + std::exp(-gate)) * up * p.inside[j];
    }
    // Given the hidden channels the outputs are independent normal numbers of variance a_i² Σ_j h_j²/h.
    const double variance = std::inner_product(of_hidden.begin(), of_hidden.end(), of_hidden.begin(), 0.0) / h;
    std::vector<double> out(d);
    draw(out, std::sqrt(variance));
    double square = 0.0;
    for (std::size_t i = 0; i < d; ++i) square += std::pow(p.channel[i] * out[i], 2);
    all.push_back(square / d);
  }
  return all;
}

// What finite width changes: given the input, E‖f‖² is the law at κ̂ = mean(c² x²), whose relative variance behind an
// RMSNorm is 2(m − 1)/(D + 2) with m the unevenness of c²g². To second order the mean is law(1) + law''(1)·variance/2,
// and as much again is allowed for what is left out.
TEST_CASE("T29 for one SwiGLU MLP, D = 256, h = 1024, shared profiles: theory against draws of this test's own") {
  for (const double log_sd : {0.0, 0.3, 0.6}) {
    const SharedProfiles p(log_sd);
    const Estimate measured = estimate(drawn_second_moments(p, 5, 2000));
    const Vector seen = squares(p.channel).cwiseAbs2();
    const double variance =
        2.0 * (seen.cwiseAbs2().mean() / std::pow(seen.mean(), 2) - 1.0) / (SharedProfiles::width + 2);
    constexpr double step = 0.05;
    const double bend = (p.law(1.0 + step) - 2.0 * p.law() + p.law(1.0 - step)) / (step * step);
    const double correction = bend * variance / 2.0;
    const double limit = most_standard_errors * measured.standard_error + std::abs(correction);
    INFO("log-sd ", log_sd, ": measured ", measured.mean, " +- ", measured.standard_error, ", law ", p.law(),
         ", at this width about ", p.law() + correction);
    const auto refused = [&](double law) { return std::abs(measured.mean - law - correction) > limit; };
    CHECK_FALSE(refused(p.law()));
    if (log_sd == 0.0) {
      CHECK(variance == 0.0);
      continue;
    }
    // The smallest error of the law that this refuses with 95 % probability: a fifth of it, and of wide profiles, whose
    // draws are few hidden channels each, the law itself.
    CHECK(limit + std::abs(correction) + 1.645 * measured.standard_error < (log_sd < 0.5 ? 0.2 : 1.0) * p.law());
    // What the matrices' root mean squares alone say; profiles without their columns; with rows and columns of the
    // hidden channels in another order, as if they did not go together.
    const auto root_mean_squares = [](WeightScales& scales) {
      for (const auto& [id, profile] : scales.profiles) {
        const double rows = squares(profile.rows).mean();
        scales.stddev[id] *= std::sqrt(rows * squares(profile.columns).mean());
      }
      scales.profiles.clear();
    };
    const auto no_columns = [](WeightScales& scales) {
      for (auto& [id, profile] : scales.profiles) profile.columns.clear();
    };
    const auto out_of_order = [](WeightScales& scales) {
      std::ranges::reverse(scales.profiles[matrix_id(0, Weight::down)].columns);
    };
    INFO("matrices alone ", p.law(1.0, root_mean_squares), ", no columns ", p.law(1.0, no_columns), ", out of order ",
         p.law(1.0, out_of_order));
    CHECK(refused(p.law(1.0, root_mean_squares)));
    CHECK(refused(p.law(1.0, no_columns)));
    CHECK(refused(p.law(1.0, out_of_order)));
  }
}

}  // namespace
}  // namespace periscope::testing
