#include "theory/predict/forward.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/spec/weight_scales.h"
#include "theory/predict/channel_kernel.h"
#include "theory/predict/kernel_profile.h"
#include "theory/predict/module_kernels.h"

namespace periscope::theory {
namespace {

double variance_of(const StackSpec& spec, int layer, Weight weight) {
  const double sigma = stddev_of(spec, layer, weight);
  return sigma * sigma;
}

/// Returns the gains of a layer's QK-norm, or nothing where they are 1.
std::vector<double> qk_gain(const StackSpec& spec, int layer, Weight norm) {
  if (spec.scales == nullptr || spec.model.qk_norm == QkNorm::none) return {};
  return gain_of(spec, 2 * layer, norm);
}

/// True if a norm changes the direction of what it reads, to leading order in 1/D.
bool turns(const StackSpec& spec, const ParameterId& gain) {
  return !norm_gain(spec, gain.sublayer, gain.weight).is_uniform() || bias_stddev_of(spec, gain) > 0.0;
}

}  // namespace

PatternLaw pattern_law(const StackSpec& spec, int layer) {
  const ModelSpec& m = spec.model;
  const Vector weights = head_weights(spec, layer);
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
          .key_gain = qk_gain(spec, layer, Weight::k_norm),
          .query_rows = profile_of(spec, layer, Weight::q).rows,
          .key_rows = profile_of(spec, layer, Weight::k).rows,
          .head_weights = {weights.begin(), weights.end()}};
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

Profile forward_profile(const StackSpec& spec, const ForwardChain& chain, ForwardTrace* trace) {
  const ModelSpec& m = spec.model;
  if (trace != nullptr && spec.scales != nullptr) {
    throw std::logic_error("the backward pass has no gains of single channels");
  }
  const auto norm = [&](const ChannelKernel& x, int sublayer, Weight weight) {
    return with_bias(normalised(x, m.norm, norm_gain(spec, sublayer, weight), m.norm_eps),
                     bias_stddev_of(spec, gain_id(sublayer, weight)), m.width);
  };
  KernelProfile writer(m, chain.sequences.count);
  const StackAttention attention(spec, chain.sequences.count);
  const auto module = [&](const ChannelKernel& input, int l, Matrix* activated) {
    const int layer = l / 2;
    if (!ModelSpec::is_attention(l)) {
      return with_bias(mlp_kernel(spec, layer, input, activated), bias_stddev_of(spec, matrix_id(layer, Weight::down)),
                       m.width);
    }
    const PatternStream stream{chain.seed, chain.replicate, static_cast<std::uint64_t>(l), &chain.on_work};
    return with_bias(
        attention_kernel(spec, layer, attention.at(layer), input, chain.samples, stream, attention_factor(chain.fault)),
        bias_stddev_of(spec, matrix_id(layer, Weight::o)), m.width);
  };
  ChannelKernel x = stack_input(spec, chain.ids);
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
    const ChannelKernel f = module(a, l, trace != nullptr ? &activated : nullptr);
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
    chain.on_work(1.0);
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
  const auto step_of = [&](double width, double heads, double hidden) {
    return std::max({width / m.width, heads / (32.0 * m.heads), hidden / m.mlp_width});
  };
  const double step = step_of(1.0, 1.0, 1.0);
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
    const ChannelLoss loss = channel_loss(spec, l);
    const bool attends = ModelSpec::is_attention(l);
    const double own = step_of(loss.width, attends ? loss.hidden : 1.0, attends ? 1.0 : loss.hidden);
    factor.push_back(std::max(1.0, elasticity * elasticity) * factor.back() + own);
  }
  return factor;
}

}  // namespace periscope::theory
