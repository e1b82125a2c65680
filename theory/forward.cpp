#include "theory/forward.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/spec/weight.h"
#include "theory/channel_kernel.h"
#include "theory/kernel_profile.h"

namespace periscope::theory {
namespace {

double variance_of(const StackSpec& spec, int layer, Weight weight) {
  const double sigma = stddev_of(spec, layer, weight);
  return sigma * sigma;
}

/// T4: variance that W_v and W_o give attention-weighted values, per unit of their kernel.
double value_gain(const StackSpec& spec, int layer) {
  const ModelSpec& m = spec.model;
  return variance_of(spec, layer, Weight::v) * m.width * variance_of(spec, layer, Weight::o) * m.query_width();
}

double bias_variance(const StackSpec& spec, int layer, Weight weight) {
  const double sigma = bias_stddev_of(spec, matrix_id(layer, weight));
  return sigma * sigma;
}

/// What a layer's QK-norm multiplies by, or nothing where that is 1.
std::vector<double> qk_gain(const StackSpec& spec, int layer, Weight norm) {
  if (spec.scales == nullptr || spec.model.qk_norm == QkNorm::none) return {};
  return gain_of(spec, 2 * layer, norm);
}

/// True if a norm changes the direction of what it reads, to leading order in 1/D.
bool turns(const StackSpec& spec, const ParameterId& gain) {
  return !norm_gain(spec, gain.sublayer, gain.weight).is_uniform() || bias_stddev_of(spec, gain) > 0.0;
}

/// The stack's input before the embedding norm.
ChannelKernel input_of(const StackSpec& spec, const std::vector<int>& ids) {
  const double bias = spec.model.projects_embedding() ? bias_stddev_of(spec, matrix_id(0, Weight::project_in)) : 0.0;
  return with_bias({input_kernel(spec, ids)}, bias, spec.model.width);
}

}  // namespace

PatternLaw pattern_law(const StackSpec& spec, int layer) {
  const ModelSpec& m = spec.model;
  return {.query_variance = variance_of(spec, layer, Weight::q) * m.width,
          .key_variance = variance_of(spec, layer, Weight::k) * m.width,
          .head_dim = m.head_dim,
          .query_heads = m.heads,
          .key_heads = m.kv_heads,
          .qk_norm = m.qk_norm,
          .norm_eps = m.norm_eps,
          .rope = m.rope,
          .causal = m.causal,
          .scores = m.scores_at(layer),
          .rope_frequencies = m.rope_frequencies_at(layer),
          .query_bias = bias_stddev_of(spec, matrix_id(layer, Weight::q)),
          .key_bias = bias_stddev_of(spec, matrix_id(layer, Weight::k)),
          .query_gain = qk_gain(spec, layer, Weight::q_norm),
          .key_gain = qk_gain(spec, layer, Weight::k_norm)};
}

StackAttention::StackAttention(const StackSpec& spec, int sequences) {
  const bool one_law = spec.model.attention.empty() && spec.scales == nullptr;
  const int laws = one_law ? 1 : spec.model.layers;
  for (int layer = 0; layer < laws; ++layer) {
    PatternLaw law = pattern_law(spec, layer);
    if (sequences > 1) law.sequence = spec.input.tokens;
    averages_.emplace_back(law, Eigen::Index{sequences} * spec.input.tokens);
  }
}

TokenKernel mlp_kernel(const StackSpec& spec, int layer, const TokenKernel& input, Matrix* activated) {
  const ModelSpec& m = spec.model;
  const auto mapped = [&](Weight weight) {
    Matrix k = variance_of(spec, layer, weight) * m.width * input.product;
    if (const double bias = bias_variance(spec, layer, weight); bias > 0.0) k.array() += bias;
    return k;
  };
  const double down = variance_of(spec, layer, Weight::down) * m.mlp_width;
  const Matrix up = mapped(Weight::up);
  const Activation activation = activation_of(m.mlp);
  const bool gated = is_gated(m.mlp);
  Matrix phi = activation_kernel(activation, gated ? mapped(Weight::gate) : up);
  TokenKernel output =
      TokenKernel::of_independent_features(gated ? Matrix(down * phi.cwiseProduct(up)) : Matrix(down * phi), m.width);
  if (activated != nullptr) *activated = std::move(phi);
  return output;
}

Profile forward_profile(const StackSpec& spec, const ForwardChain& chain, ForwardTrace* trace) {
  const ModelSpec& m = spec.model;
  if (trace != nullptr && spec.scales != nullptr) {
    throw std::logic_error("the way back has no gains of single channels");
  }
  const auto norm = [&](const ChannelKernel& x, int sublayer, Weight weight) {
    return with_bias(normalised(x, m.norm, norm_gain(spec, sublayer, weight), m.norm_eps),
                     bias_stddev_of(spec, gain_id(sublayer, weight)), m.width);
  };
  KernelProfile writer(m, chain.sequences.count);
  const StackAttention attention(spec, chain.sequences.count);
  // Rows of a pattern sum to 1, so a bias of the values passes as it is.
  const auto attention_kernel = [&](const TokenKernel& input, int sublayer) {
    const int layer = sublayer / 2;
    const double gain = attention_factor(chain.fault) * value_gain(spec, layer);
    const PatternStream stream{chain.seed, chain.replicate, static_cast<std::uint64_t>(sublayer)};
    Matrix k = gain * attention.at(layer).head_output_kernel(input.product, chain.samples, stream);
    if (const double bias = bias_variance(spec, layer, Weight::v); bias > 0.0) {
      k.array() += variance_of(spec, layer, Weight::o) * m.query_width() * bias;
    }
    return TokenKernel::of_independent_features(k, m.width);
  };
  const auto module = [&](const TokenKernel& input, int l, Matrix* activated) {
    const bool is_attention = ModelSpec::is_attention(l);
    const TokenKernel f = is_attention ? attention_kernel(input, l) : mlp_kernel(spec, l / 2, input, activated);
    const Weight last = is_attention ? Weight::o : Weight::down;
    return with_bias({f}, bias_stddev_of(spec, matrix_id(l / 2, last)), m.width);
  };
  ChannelKernel x = input_of(spec, chain.ids);
  if (m.embedding_norm) x = norm(x, 0, Weight::embedding_norm);
  ChannelKernel r = x;
  Matrix cross = x.total.product;  // ResiDual: E⟨x_t, r_t'⟩/D
  bool one_direction = true;       // no norm C turned the stream
  std::vector<Vector> step_cosine;
  writer.write(0, Signal::x_out, x);
  if (m.placement.two_streams) writer.write(0, Signal::r_out, r);
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = rule_under(chain.fault, m, l);
    writer.write(l, Signal::x_in, x);
    ChannelKernel a = rule.norm_a ? norm(x, l, Weight::norm_a) : x;
    a = combined(rule.input_gain, a, 0.0, a);
    writer.write(l, Signal::A_out, a);
    Matrix activated;
    const ChannelKernel f = module(a.total, l, trace != nullptr ? &activated : nullptr);
    writer.write(l, Signal::f_out, f);
    ChannelKernel b = rule.norm_b ? norm(f, l, Weight::norm_b) : f;
    if (const double off = branch_factor(chain.fault, m, l); off != 1.0) b = combined(std::sqrt(off), b, 0.0, b);
    writer.write(l, Signal::B_out, b);
    writer.write_branch(l, rule, x.total, b.total);
    const ChannelKernel sum = combined(rule.alpha, x, rule.beta, b);
    if (trace != nullptr) {
      const auto square = [&](const ChannelKernel& k) { return norm_denominator(k.total, m.norm, m.norm_eps); };
      trace->sublayers.push_back({.input = a.total.product,
                                  .activated = std::move(activated),
                                  .r_a = square(x),
                                  .r_b = square(f),
                                  .r_c = square(sum)});
    }
    step_cosine.emplace_back(rule.alpha *
                             (x.total.product.diagonal().array() / sum.total.product.diagonal().array()).sqrt());
    x = rule.norm_c ? norm(sum, l, Weight::norm_c) : sum;
    if (rule.norm_c && turns(spec, gain_id(l, Weight::norm_c))) one_direction = false;
    writer.write(l + 1, Signal::x_out, x);
    if (m.placement.two_streams) {
      r = combined(1.0, r, rule.beta, b);
      cross = rule.alpha * cross + rule.beta * rule.beta * b.total.product;
      if (rule.norm_c) cross = norm_scale(sum.total, m.norm, m.gamma, m.norm_eps).asDiagonal() * cross;
      writer.write(l + 1, Signal::r_out, r);
    }
  }
  if (trace != nullptr) {
    const ChannelKernel& last = m.placement.two_streams ? r : x;
    trace->output = (m.final_norm ? norm(last, m.sublayers(), Weight::final_norm) : last).total.product;
    if (m.placement.two_streams) {
      if (m.final_norm) cross = cross * norm_scale(r.total, m.norm, m.gamma, m.norm_eps).asDiagonal();
      trace->output += x.total.product + cross + cross.transpose();
    }
    trace->r_final = norm_denominator(last.total, m.norm, m.norm_eps);
  }
  Profile profile = writer.take();
  if (one_direction) profile.angular_distance = angular_distances(step_cosine);
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
