#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "sim/spec/weight.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/theory/xiong.h"
#include "theory/passes/backward.h"

/// Forward and backward kernels (T1, T6, T8–T11) for causal uniform attention and ReLU, against an independent
/// recursion with 3 × 3 matrices and closed forms, with every scale that a placement can have.
namespace periscope::theory {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int tokens = 3;
const std::vector<int> labels{2, 0, 2};

double squared(double x) { return x * x; }

/// E[relu(u) relu(v)] and P(u > 0, v > 0) for u, v of covariance k, by their angle (Cho and Saul 2009).
struct ReluKernel {
  MatrixXd value = MatrixXd::Zero(tokens, tokens);
  MatrixXd both_positive = MatrixXd::Zero(tokens, tokens);

  explicit ReluKernel(const MatrixXd& k) {
    for (int t = 0; t < tokens; ++t) {
      for (int s = 0; s < tokens; ++s) {
        const double size = std::sqrt(k(t, t) * k(s, s));
        const double cosine = t == s ? 1.0 : k(t, s) / size;
        const double angle = std::acos(cosine);
        const double rest = std::numbers::pi - angle;
        value(t, s) = size * (std::sin(angle) + rest * cosine) / (2.0 * std::numbers::pi);
        both_positive(t, s) = rest / (2.0 * std::numbers::pi);
      }
    }
  }
};

/// Second moments of signals, output kernel, and squared gradients of stream and weights, computed independently.
struct Recursion {
  explicit Recursion(StackSpec stack) : spec(std::move(stack)), m(spec.model) {
    for (int t = 0; t < tokens; ++t) average.row(t).head(t + 1).setConstant(1.0 / (t + 1));
  }

  StackSpec spec;
  const ModelSpec& m;
  MatrixXd average = MatrixXd::Zero(tokens, tokens);
  struct Step {
    MatrixXd input;
    VectorXd a, b, c;  ///< factors of norms A, B and C; 1 without a norm
  };
  std::vector<Step> steps;
  VectorXd last;
  std::map<Signal, std::vector<double>> second_moment;
  std::vector<double> gradient;
  std::map<Weight, std::vector<double>> weights;

  [[nodiscard]] double variance(Weight w) const { return squared(stddev_of(spec, 0, w)); }
  /// γ/√(K_tt + ε), or 1 without a norm.
  [[nodiscard]] VectorXd norm_factor(bool has_norm, const MatrixXd& k) const {
    if (!has_norm) return VectorXd::Ones(tokens);
    return (m.gamma / (k.diagonal().array() + m.norm_eps).sqrt()).matrix();
  }
  void read(Signal site, const MatrixXd& k) { second_moment[site].push_back(k.trace() / tokens); }
  static MatrixXd both_sides(const VectorXd& d, const MatrixXd& k) { return d.asDiagonal() * k * d.asDiagonal(); }

  MatrixXd forward() {
    const double c = spec.input.correlation;
    MatrixXd x = spec.input.second_moment *
                 ((1.0 - c) * MatrixXd::Identity(tokens, tokens) + c * MatrixXd::Ones(tokens, tokens));
    x = both_sides(norm_factor(m.embedding_norm, x), x);
    MatrixXd r = x;
    MatrixXd x_with_r = x;
    read(Signal::x_out, x);
    if (m.placement.wiring == Wiring::dual) read(Signal::r_out, r);
    for (int l = 0; l < m.sublayers(); ++l) {
      const SublayerRule rule = m.rule(l);
      Step step;
      read(Signal::x_in, x);
      step.a = norm_factor(rule.norm_a, x);
      step.input = squared(rule.input_gain) * both_sides(step.a, x);
      read(Signal::A_out, step.input);
      MatrixXd f = l % 2 == 0 ? MatrixXd(variance(Weight::v) * m.width * variance(Weight::o) * m.query_width() *
                                         (average * step.input * average.transpose()))
                              : MatrixXd(variance(Weight::down) * m.mlp_width *
                                         ReluKernel(variance(Weight::up) * m.width * step.input).value);
      read(Signal::f_out, f);
      step.b = norm_factor(rule.norm_b, f);
      f = both_sides(step.b, f);
      read(Signal::B_out, f);
      x = squared(rule.alpha) * x + squared(rule.beta) * f;
      r += squared(rule.beta) * f;
      // x⁺ = c(αx + βf) and r⁺ = r + βf share the branch.
      step.c = norm_factor(rule.norm_c, x);
      x_with_r = step.c.asDiagonal() * (rule.alpha * x_with_r + squared(rule.beta) * f);
      x = both_sides(step.c, x);
      steps.push_back(step);
      read(Signal::x_out, x);
      if (m.placement.wiring == Wiring::dual) read(Signal::r_out, r);
    }
    const MatrixXd& read = (m.placement.wiring == Wiring::dual) ? r : x;
    last = norm_factor(m.final_norm, read);
    if (m.placement.wiring != Wiring::dual) return both_sides(last, x);
    const MatrixXd cross = x_with_r * last.asDiagonal();
    return x + both_sides(last, r) + cross + cross.transpose();
  }

  void backward(const MatrixXd& loss) {
    const bool two = (m.placement.wiring == Wiring::dual);
    const MatrixXd none = MatrixXd::Zero(tokens, tokens);
    MatrixXd g = two ? loss : both_sides(last, loss);
    const MatrixXd of_r = two ? both_sides(last, loss) : none;
    MatrixXd x_with_r = two ? MatrixXd(loss * last.asDiagonal()) : none;  // E⟨∂/∂x_t, ∂/∂r_s⟩
    gradient.assign(static_cast<std::size_t>(m.sublayers()) + 1, 0.0);
    gradient.back() = g.trace() / tokens;
    for (int l = m.sublayers() - 1; l >= 0; --l) {
      const SublayerRule rule = m.rule(l);
      const Step& step = steps[static_cast<std::size_t>(l)];
      const MatrixXd sum = both_sides(step.c, g);
      x_with_r = step.c.asDiagonal() * x_with_r;
      const MatrixXd branch = both_sides(step.b, squared(rule.beta) * (sum + of_r + x_with_r + x_with_r.transpose()));
      const MatrixXd in = l % 2 == 0 ? attention(step.input, branch) : mlp(step.input, branch);
      g = squared(rule.alpha) * sum + both_sides(step.a, squared(rule.input_gain) * in);
      x_with_r *= rule.alpha;
      // The input enters both streams.
      const MatrixXd total = l == 0 ? MatrixXd(g + of_r + x_with_r + x_with_r.transpose()) : g;
      gradient[static_cast<std::size_t>(l)] = total.trace() / tokens;
    }
    for (auto& [weight, curve] : weights) std::reverse(curve.begin(), curve.end());
  }

  MatrixXd attention(const MatrixXd& input, const MatrixXd& g) {
    const MatrixXd values = variance(Weight::o) * m.query_width() * (average.transpose() * g * average);
    const MatrixXd mixed = variance(Weight::v) * m.width * (average * input * average.transpose());
    weights[Weight::v].push_back(m.width * input.cwiseProduct(values).sum());
    weights[Weight::o].push_back(m.query_width() * mixed.cwiseProduct(g).sum());
    return variance(Weight::v) * m.width * values;
  }

  MatrixXd mlp(const MatrixXd& input, const MatrixXd& g) {
    const ReluKernel hidden(variance(Weight::up) * m.width * input);
    const MatrixXd up = variance(Weight::down) * m.mlp_width * hidden.both_positive.cwiseProduct(g);
    weights[Weight::down].push_back(m.mlp_width * hidden.value.cwiseProduct(g).sum());
    weights[Weight::up].push_back(m.width * input.cwiseProduct(up).sum());
    return variance(Weight::up) * m.width * up;
  }
};

StackSpec stack(const Placement& placement) {
  StackSpec spec = xiong_stack("pre");
  spec.model.placement = placement;
  spec.model.final_norm = placement.defaults.final_norm || (placement.wiring == Wiring::dual);
  spec.model.layers = 4;
  spec.model.kv_heads = 2;
  spec.model.head_dim = 8;  // all widths differ
  spec.model.mlp_width = 96;
  spec.model.causal = true;
  spec.model.vocab = 5;
  spec.model.gamma = 0.8;
  spec.model.norm_eps = 0.02;
  spec.init.down_factor = 1.4;
  spec.input.tokens = tokens;
  spec.input.second_moment = 1.7;
  spec.input.correlation = 0.3;
  return spec;
}

// Rounding of a few hundred well-conditioned operations.
constexpr double rounding = 1e-10;

void check(const std::string& what, const StackSpec& spec) {
  const ForwardReplicate chain{.ids = {}, .samples = 64, .seed = 3};
  ForwardTrace trace;
  Profile profile = forward_profile(spec, chain, &trace);
  backward_profile(spec, chain, trace, {labels}, profile);
  Recursion expected(spec);
  const MatrixXd output = expected.forward();
  const auto values = [](const MatrixXd& k) { return std::vector<double>(k.data(), k.data() + k.size()); };
  for (const auto& [site, curve] : expected.second_moment) {
    testing::check_close_to_scale(what + ", " + std::string(name_of(site)),
                                  profile.find(Statistic::second_moment, site)->value, curve, rounding);
  }
  testing::check_close_to_scale(what + ", output", values(trace.output), values(output), rounding);
  // The loss gradient (T7) is tested in backward_test; here both sides use the same samples.
  const Matrix loss = loss_gradient(spec, trace.output, {labels}, chain.samples,
                                    {chain.seed, chain.index, place::backward_pass + place::logits});
  expected.backward(loss);
  testing::check_close_to_scale(what + ", gradient of the stream",
                                profile.find(Statistic::grad_sq, Signal::x_out)->value, expected.gradient, rounding);
  for (const auto& [weight, curve] : expected.weights) {
    testing::check_close_to_scale(what + ", gradient of " + std::string(name_of(weight)),
                                  profile.find(Statistic::grad_sq, weight)->value, curve, rounding);
  }
}

TEST_CASE("T1, T8-T11: uniform attention and ReLU, forward and backward, in every placement") {
  for (const Placement& placement : placement_table()) {
    if (testing::is_plain(placement)) check(std::string(placement.name), stack(placement));
  }
}

TEST_CASE("T1, T8-T11: with an embedding norm") {
  for (const char* placement : {"pre", "peri", "post"}) {
    StackSpec spec = stack(*find_placement(placement));
    spec.model.embedding_norm = true;
    check(std::string(placement) + ", embedding norm", spec);
  }
}

TEST_CASE("T1, T8-T11: every scale of a custom placement, alone and together") {
  const SublayerRule plain{.norm_a = true};
  const auto with = [&](const std::string& what, const std::function<void(SublayerRule&)>& change) {
    SublayerRule rule = plain;
    change(rule);
    check(what, stack(custom_placement(rule)));
  };
  with("alpha", [](SublayerRule& r) { r.alpha = -0.7; });
  with("beta", [](SublayerRule& r) { r.beta = 1.6; });
  with("input gain", [](SublayerRule& r) { r.input_gain = 0.5; });
  with("everything", [](SublayerRule& r) {
    r = {.norm_a = true, .norm_b = true, .norm_c = true, .alpha = -0.7, .beta = 1.6, .input_gain = 0.5};
  });
  // ResiDual with scales: cross terms between its two streams.
  Placement two = *find_placement("residual-dual");
  two.rule = nullptr;
  for (const bool norms : {false, true}) {
    two.custom = std::make_shared<const FreeForm>(
        FreeForm{{.norm_a = norms, .norm_b = norms, .norm_c = true, .alpha = -0.7, .beta = 1.6, .input_gain = 0.5}});
    check(norms ? "two streams, all norms and scales" : "two streams, scales", stack(two));
  }
}

}  // namespace
}  // namespace periscope::theory
