#include "theory/forward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "sim/spec/weight.h"

namespace periscope::theory {
namespace {

double squared(double x) { return x * x; }

/// Writes the statistics of kernels into a profile.
class ProfileWriter {
 public:
  explicit ProfileWriter(const StackSpec& spec) : width_(spec.model.width), sublayers_(spec.model.sublayers()) {}

  void write(int index, Signal signal, const TokenKernel& x) {
    const Vector q = x.product.diagonal();
    const double n = width_;
    set(Statistic::second_moment, signal, index, q.mean());
    set(Statistic::variance, signal, index, (q - x.mean.diagonal()).mean());
    set(Statistic::mean, signal, index, 0.0);
    set(Statistic::kurtosis, signal, index, 3.0 * (n - 1.0) / (n + 1.0));
    if (q.size() != last_.size() || q != last_) {  // x_in repeats x_out, and B_out f_out where there is no norm B
      maximum_ = expected_maximum(q, width_);
      last_ = q;
    }
    set(Statistic::maximum, signal, index, maximum_);
    set(Statistic::token_cosine, signal, index, token_cosine(x.product));
  }

  void write_branch(int sublayer, const SublayerRule& rule, const TokenKernel& stream, const TokenKernel& branch) {
    const Vector ratio = (branch.product.diagonal().array() / stream.product.diagonal().array()).sqrt();
    set(Statistic::branch_ratio, Signal::B_out, sublayer, std::abs(rule.beta / rule.alpha) * ratio.mean());
    set(Statistic::branch_cosine, Signal::B_out, sublayer, 0.0);
  }

  Profile take() { return std::move(profile_); }

 private:
  void set(Statistic statistic, Signal signal, int index, double value) {
    Curve& curve = profile_.curves[{statistic, signal}];
    const bool stream = runs_over_depth(signal);
    curve.value.resize(static_cast<std::size_t>(sublayers_ + (stream ? 1 : 0)),
                       std::numeric_limits<double>::quiet_NaN());
    curve.value[static_cast<std::size_t>(index)] = value;
  }

  int width_;
  int sublayers_;
  Profile profile_;
  Vector last_;  // the diagonal whose maximum was taken last
  double maximum_ = 0.0;
};

/// Stacks with more depths than this get no angular distances, whose number is the square of that of the depths.
constexpr std::size_t most_depths = 513;

/// Per token, the cosine of the stream at two depths: fresh branches are orthogonal to the past, so it is the
/// product over the sublayers between of alpha·√(K/K⁺ before norm C), negative where an odd number of alphas is.
std::vector<double> angular_distances(const std::vector<Vector>& step_cosine) {
  const std::size_t depths = step_cosine.size() + 1;
  if (depths > most_depths) return {};
  std::vector<double> distance(depths * depths, 0.0);
  for (std::size_t i = 0; i < depths; ++i) {
    Vector cosine = Vector::Ones(step_cosine.empty() ? 0 : step_cosine[0].size());
    for (std::size_t j = i + 1; j < depths; ++j) {
      cosine = cosine.cwiseProduct(step_cosine[j - 1]);
      const double mean = cosine.unaryExpr([](double c) { return std::acos(std::clamp(c, -1.0, 1.0)); }).mean();
      distance[i * depths + j] = distance[j * depths + i] = mean / std::numbers::pi;
    }
  }
  return distance;
}

/// T4: variance that W_v and W_o give attention-weighted values, per unit of their kernel.
double value_gain(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  return squared(stddev_of(spec, Weight::v)) * m.width * squared(stddev_of(spec, Weight::o)) * m.query_width();
}

}  // namespace

PatternLaw pattern_law(const StackSpec& spec, int layer) {
  const ModelSpec& m = spec.model;
  return {.query_variance = squared(stddev_of(spec, Weight::q)) * m.width,
          .key_variance = squared(stddev_of(spec, Weight::k)) * m.width,
          .head_dim = m.head_dim,
          .query_heads = m.heads,
          .key_heads = m.kv_heads,
          .qk_norm = m.qk_norm,
          .norm_eps = m.norm_eps,
          .rope = m.rope,
          .causal = m.causal,
          .scores = m.scores_at(layer),
          .rope_frequencies = m.rope_frequencies_at(layer)};
}

StackAttention::StackAttention(const StackSpec& spec) {
  const int laws = spec.model.attention.empty() ? 1 : spec.model.layers;
  for (int layer = 0; layer < laws; ++layer) averages_.emplace_back(pattern_law(spec, layer), spec.input.tokens);
}

TokenKernel mlp_kernel(const StackSpec& spec, const TokenKernel& input, Matrix* activated) {
  const ModelSpec& m = spec.model;
  const double down = squared(stddev_of(spec, Weight::down)) * m.mlp_width;
  const Matrix up = squared(stddev_of(spec, Weight::up)) * m.width * input.product;
  const Activation activation = activation_of(m.mlp);
  const bool gated = is_gated(m.mlp);
  Matrix phi = activation_kernel(activation,
                                 gated ? Matrix(squared(stddev_of(spec, Weight::gate)) * m.width * input.product) : up);
  TokenKernel output =
      TokenKernel::of_independent_features(gated ? Matrix(down * phi.cwiseProduct(up)) : Matrix(down * phi), m.width);
  if (activated != nullptr) *activated = std::move(phi);
  return output;
}

Profile forward_profile(const StackSpec& spec, const ForwardChain& chain, ForwardTrace* trace) {
  const ModelSpec& m = spec.model;
  const auto norm = [&](const TokenKernel& x) { return normalised(x, m.norm, m.gamma, m.norm_eps); };
  ProfileWriter writer(spec);
  const StackAttention attention(spec);
  const double gain = attention_factor(chain.fault) * value_gain(spec);
  const auto attention_kernel = [&](const TokenKernel& input, int sublayer) {
    const PatternStream stream{chain.seed, chain.replicate, static_cast<std::uint64_t>(sublayer)};
    return TokenKernel::of_independent_features(
        gain * attention.at(sublayer / 2).head_output_kernel(input.product, chain.samples, stream), m.width);
  };
  TokenKernel x = input_kernel(spec, chain.ids);
  if (m.embedding_norm) x = norm(x);
  TokenKernel r = x;
  Matrix cross = x.product;  // ResiDual: E⟨x_t, r_t'⟩/D
  std::vector<Vector> step_cosine;
  writer.write(0, Signal::x_out, x);
  if (m.placement.two_streams) writer.write(0, Signal::r_out, r);
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = rule_under(chain.fault, m, l);
    writer.write(l, Signal::x_in, x);
    TokenKernel a = rule.norm_a ? norm(x) : x;
    a = combined(rule.input_gain, a, 0.0, a);
    writer.write(l, Signal::A_out, a);
    Matrix activated;
    const TokenKernel f = ModelSpec::is_attention(l) ? attention_kernel(a, l)
                                                     : mlp_kernel(spec, a, trace != nullptr ? &activated : nullptr);
    writer.write(l, Signal::f_out, f);
    TokenKernel b = rule.norm_b ? norm(f) : f;
    if (const double off = branch_factor(chain.fault, m, l); off != 1.0) b = combined(std::sqrt(off), b, 0.0, b);
    writer.write(l, Signal::B_out, b);
    writer.write_branch(l, rule, x, b);
    const TokenKernel sum = combined(rule.alpha, x, rule.beta, b);
    if (trace != nullptr) {
      const auto square = [&](const TokenKernel& k) { return norm_denominator(k, m.norm, m.norm_eps); };
      trace->sublayers.push_back({.input = a.product,
                                  .activated = std::move(activated),
                                  .r_a = square(x),
                                  .r_b = square(f),
                                  .r_c = square(sum)});
    }
    step_cosine.emplace_back(rule.alpha * (x.product.diagonal().array() / sum.product.diagonal().array()).sqrt());
    x = rule.norm_c ? norm(sum) : sum;
    writer.write(l + 1, Signal::x_out, x);
    if (m.placement.two_streams) {
      r = combined(1.0, r, rule.beta, b);
      cross = rule.alpha * cross + rule.beta * rule.beta * b.product;
      if (rule.norm_c) cross = norm_scale(sum, m.norm, m.gamma, m.norm_eps).asDiagonal() * cross;
      writer.write(l + 1, Signal::r_out, r);
    }
  }
  if (trace != nullptr) {
    const TokenKernel& last = m.placement.two_streams ? r : x;
    trace->output = m.final_norm ? norm(last).product : last.product;
    if (m.placement.two_streams) {
      if (m.final_norm) cross = cross * norm_scale(r, m.norm, m.gamma, m.norm_eps).asDiagonal();
      trace->output += x.product + cross + cross.transpose();
    }
    trace->r_final = norm_denominator(last, m.norm, m.norm_eps);
  }
  Profile profile = writer.take();
  profile.angular_distance = angular_distances(step_cosine);
  return profile;
}

std::vector<double> finite_width_factor(const StackSpec& spec, const std::vector<double>& q_in,
                                        const std::vector<double>& q_branch) {
  const ModelSpec& m = spec.model;
  // Attention averages over H heads, which makes 1/(32 H) larger than 1/D where heads are wider than 32, and the MLP's
  // output averages over h features.
  const double step = std::max({1.0 / m.width, 1.0 / (32.0 * m.heads), 1.0 / m.mlp_width});
  std::vector<double> factor{m.embedding_norm ? step : 0.0};
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = m.rule(l);
    const auto i = static_cast<std::size_t>(l);
    // The second moment of a gated MLP's output grows at most with the square of its input's.
    const double degree = !ModelSpec::is_attention(l) && is_gated(m.mlp) ? 2.0 : 1.0;
    const double stream = rule.alpha * rule.alpha * q_in[i];
    const double branch = rule.beta * rule.beta * q_branch[i];
    const bool bounded = rule.norm_a || rule.norm_b || rule.norm_c;
    const double elasticity = bounded ? 1.0 : (stream + degree * branch) / (stream + branch);
    factor.push_back(std::max(1.0, elasticity * elasticity) * factor.back() + step);
  }
  return factor;
}

}  // namespace periscope::theory
