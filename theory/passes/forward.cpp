#include "theory/passes/forward.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/spec/weight_scales.h"
#include "theory/modules/channel_kernel.h"
#include "theory/modules/kernel_streams.h"
#include "theory/modules/module_kernels.h"
#include "theory/passes/kernel_profile.h"

namespace periscope::theory {
namespace {

double variance_of(const StackSpec& spec, int layer, Weight weight) {
  const double sigma = stddev_of(spec, layer, weight);
  return sigma * sigma;
}

/// Returns the gains of a layer's QK-norm; empty if they are 1.
std::vector<double> qk_gain(const StackSpec& spec, int layer, Weight norm) {
  if (spec.scales == nullptr || spec.model.qk_norm_at(layer) == QkNorm::none) return {};
  return gain_of(spec, 2 * layer, norm);
}

/// Returns true if a norm changes the direction of its input, to leading order in 1/D.
bool changes_direction(const StackSpec& spec, const ParameterId& gain) {
  return !norm_gain(spec, gain.sublayer, gain.weight).is_uniform() || bias_stddev_of(spec, gain) > 0.0;
}

/// Returns true if norms fix the size of attention logits in every layer, to a standard deviation of at most `limit`.
bool logits_are_bounded(const StackSpec& spec, double limit) {
  const ModelSpec& m = spec.model;
  for (int s = 0; s < m.steps(); ++s) {
    const Step step = m.step(s);
    for (const Branch& branch : step.branches) {
      if (branch.kind != ModuleKind::attention) continue;
      const PatternLaw law = pattern_law(spec, branch.layer());
      double size = law.scale() * std::sqrt(static_cast<double>(law.head_dim));
      if (!law.rope_gains.empty()) size *= std::pow(std::ranges::max(law.rope_gains), 2.0);
      if (law.qk_norm == QkNorm::none) {
        const std::optional<std::size_t> stream = branch.read_stream();
        const bool after_a = branch.norm_a || (branch.shares_input && step.branches.front().norm_a);
        const bool after_c = stream && s > 0 && m.step(s - 1).norm_c[*stream];
        const bool first = s == 0 && m.embedding_norm;
        double moment = m.gamma * m.gamma;
        if (!after_a && !after_c && !first) {
          if (s > 0) return false;
          moment = spec.input.second_moment;
        }
        size *= std::sqrt(law.query.variance * law.key.variance) * moment;
      }
      if (!(size <= limit)) return false;
    }
  }
  return true;
}

}  // namespace

PatternLaw pattern_law(const StackSpec& spec, int layer) {
  const ModelSpec& m = spec.model;
  const Vector weights = head_weights(spec, layer);
  const auto projection = [&](Weight weight, Weight norm, int heads) -> ProjectionLaw {
    return {.variance = variance_of(spec, layer, weight) * m.width,
            .heads = heads,
            .bias = bias_stddev_of(spec, matrix_id(layer, weight)),
            .gain = qk_gain(spec, layer, norm),
            .rows = profile_of(spec, layer, weight).rows};
  };
  return {.query = projection(Weight::q, Weight::q_norm, m.heads),
          .key = projection(Weight::k, Weight::k_norm, m.kv_heads_at(layer)),
          .head_dim = m.head_dim_at(layer),
          .qk_norm = m.qk_norm_at(layer),
          .norm_eps = m.norm_eps,
          .rope = m.rope,
          .causal = m.causal,
          .scores = m.scores_at(layer),
          .rope_frequencies = m.rope_frequencies_at(layer),
          .rope_gains = m.rope_gains_at(layer),
          .head_weights = {weights.begin(), weights.end()}};
}

std::optional<TokenGrid> grid_for(const StackSpec& spec) {
  constexpr double max_logit_stddev = 2.5;
  const ModelSpec& m = spec.model;
  if (spec.input.kind != InputKind::gaussian || spec.scales != nullptr || is_uniform(pattern_law(spec, 0)) ||
      !logits_are_bounded(spec, max_logit_stddev)) {
    return {};
  }
  for (int layer = 0; layer < m.layers; ++layer) {
    const int window = m.scores_at(layer).window;
    if (window > 0 && window < spec.input.tokens) return {};
  }
  TokenGrid grid(spec.input.tokens, m.causal);
  if (2 * grid.size() > spec.input.tokens) return {};
  return grid;
}

StackAttention::StackAttention(const StackSpec& spec, int sequences, const TokenGrid* grid, const GridFit* fit) {
  bool one_law = spec.model.attention.empty() && spec.scales == nullptr;
  for (int layer = 1; layer < spec.model.layers; ++layer) {
    one_law = one_law && spec.model.qk_norm_at(layer) == spec.model.qk_norm_at(0);
  }
  const int laws = one_law ? 1 : spec.model.layers;
  for (int layer = 0; layer < laws; ++layer) {
    PatternLaw law = pattern_law(spec, layer);
    if (grid != nullptr) {
      averages_.emplace_back(law, *grid, fit);
      continue;
    }
    if (sequences > 1) law.sequence = spec.input.tokens;
    averages_.emplace_back(law, Index{sequences} * spec.input.tokens);
  }
}

Profile forward_profile(const StackSpec& spec, const ForwardReplicate& replicate, ForwardTrace* trace) {
  const ModelSpec& m = spec.model;
  if (trace != nullptr && spec.scales != nullptr) {
    throw std::logic_error("unsupported in the backward pass: given scales");
  }
  const NormUse norms = norm_use(m);
  const NormLaw& law = law_of(m.norm);
  const auto norm = [&](const ChannelKernel& x, int sublayer, Weight weight) {
    return with_bias(normalised(x, norms, norm_gain(spec, sublayer, weight)),
                     bias_stddev_of(spec, gain_id(sublayer, weight)), m.width);
  };
  const auto traced = [&](const ChannelKernel& x) { return law.trace(x.total, norms); };
  const auto slope = [&](const ChannelKernel& x) { return law.slope(traced(x), norms, m.gamma); };
  if (replicate.grid != nullptr && (!replicate.ids.empty() || replicate.sequences.count > 1)) {
    throw std::logic_error("unsupported on a token grid: token ids, or several sequences");
  }
  KernelProfile writer(m, replicate.sequences.count, replicate.grid);
  const StackAttention attention(spec, replicate.sequences.count, replicate.grid);
  const auto module = [&](const Branch& branch, const ChannelKernel& input, Matrix* activated, Vector* inner) {
    const int layer = branch.layer();
    if (branch.kind == ModuleKind::mlp) {
      return with_bias(mlp_kernel(spec, layer, input, activated), bias_stddev_of(spec, matrix_id(layer, Weight::down)),
                       m.width);
    }
    const PatternStream stream{replicate.seed, replicate.index, static_cast<std::uint64_t>(branch.sublayer),
                               &replicate.on_work};
    return with_bias(attention_kernel(spec, layer, attention.at(layer), input, replicate.samples, stream, inner),
                     bias_stddev_of(spec, matrix_id(layer, Weight::o)), m.width);
  };
  const StreamEnds ends = m.ends();
  StackSpec grid_spec = spec;
  if (replicate.grid != nullptr) grid_spec.input.tokens = static_cast<int>(replicate.grid->size());
  ChannelKernel x = stack_input(grid_spec, replicate.ids);
  if (m.embedding_norm) x = norm(x, 0, Weight::embedding_norm);
  KernelStreams streams(x, ends.streams(), m.width);
  bool one_direction = ends.parts_of_stream() == 1;  // no norm C or mixing has changed the stream's direction
  std::vector<Vector> step_cosine;
  writer.write(0, ends, streams);
  for (int s = 0; s < m.steps(); ++s) {
    const Step step = step_under(replicate.fault, m, s);
    std::vector<ChannelKernel> written;
    ChannelKernel shared;
    for (const Branch& branch : step.branches) {
      const int l = branch.sublayer;
      const ChannelKernel read = streams.sum(branch.shares_input ? step.branches.front().reads : branch.reads);
      writer.write(l, Signal::x_in, read);
      ChannelKernel a = shared;
      if (!branch.shares_input) {
        a = branch.norm_a ? norm(read, l, Weight::norm_a) : read;
        a = combined(branch.input_gain, a, 0.0, a);
      }
      if (step.branches.size() > 1) shared = a;
      writer.write(l, Signal::A_out, a);
      Matrix activated;
      Vector r_inner;
      const ChannelKernel f = module(branch, a, trace != nullptr ? &activated : nullptr, &r_inner);
      writer.write(l, Signal::f_out, f);
      ChannelKernel b = branch.norm_b ? norm(f, l, Weight::norm_b) : f;
      if (const double beta = branch_factor(replicate.fault, m, l); beta != 1.0)
        b = combined(std::sqrt(beta), b, 0.0, b);
      writer.write(l, Signal::B_out, b);
      writer.write_branch(l, branch_scale(step, branch), read.total, b.total);
      if (trace != nullptr) {
        trace->sublayers.push_back({.input = a.total.product,
                                    .activated = std::move(activated),
                                    .norm_a = traced(read),
                                    .norm_b = traced(f),
                                    .r_inner = std::move(r_inner)});
      }
      written.push_back(std::move(b));
    }
    const Matrix before = streams[0].total.product.diagonal();
    streams.add(step, written);
    if (only_entry(step.mixing[0]) == 0U) {
      step_cosine.emplace_back(step.mixing[0][0] *
                               (before.array() / streams[0].total.product.diagonal().array()).sqrt());
    } else {
      one_direction = false;
    }
    if (trace != nullptr) trace->norm_c.emplace_back(streams.count());
    for (std::size_t i = 0; i < streams.count(); ++i) {
      if (!step.norm_c[i]) continue;
      const int l = step.branches.back().sublayer;
      if (trace != nullptr) trace->norm_c.back()[i] = traced(streams[i]);
      if (ends.names[i] == Signal::x_out && ends.parts_of_stream() == 1) writer.write_sum(s + 1, streams[i]);
      const Vector scale = slope(streams[i]);
      streams.normalise(i, norm(streams[i], l, Weight::norm_c), scale);
      if (changes_direction(spec, gain_id(l, Weight::norm_c))) one_direction = false;
    }
    writer.write(s + 1, ends, streams);
    replicate.on_work(1.0);
  }
  if (trace != nullptr) {
    const ChannelKernel last = streams.sum(ends.normed);
    trace->output = (m.final_norm ? norm(last, m.sublayers(), Weight::final_norm) : last).total.product;
    if (ends.has_plain()) {
      Matrix cross = streams.between(ends.plain, ends.normed);
      if (m.final_norm) cross = cross * slope(last).asDiagonal();
      trace->output += streams.sum(ends.plain).total.product + cross + cross.transpose();
    }
    trace->final_norm = traced(last);
  }
  Profile profile = writer.take();
  remove_pointwise_tails(m, profile);
  if (one_direction) profile.angular_distance = angular_distances(step_cosine, replicate.grid);
  return profile;
}

std::vector<double> finite_width_factor(const StackSpec& spec, const std::vector<double>& q_in,
                                        const std::vector<double>& q_branch) {
  const ModelSpec& m = spec.model;
  // Attention averages over H heads, so 1/(32 H) exceeds 1/D for heads wider than 32. The MLP averages over h features.
  const auto width_term = [&](double width, double heads, double hidden) {
    return std::max({width / m.width, heads / (32.0 * m.heads), hidden / m.mlp_width});
  };
  const double base = width_term(1.0, 1.0, 1.0);
  std::vector<double> factor{m.embedding_norm ? base : 0.0};
  for (int s = 0; s < m.steps(); ++s) {
    const Step step = step_under(Fault::none, m, s);
    const bool divided_sum = std::ranges::find(step.norm_c, true) != step.norm_c.end();
    double elasticity = 0.0;
    double increment = 0.0;
    for (const Branch& branch : step.branches) {
      const auto i = static_cast<std::size_t>(branch.sublayer);
      // The output's second moment grows at most with the square of the input's for a gated MLP. For a gated attention
      // the exponent is at most 1/6 larger than without gates (E σ(√c z)² rises from ¼ to ½).
      const bool attends = branch.kind == ModuleKind::attention;
      const bool gates = attends && m.gates_at(branch.layer()) > 0;
      const double degree = !attends && is_gated(m.mlp) ? 2.0 : gates ? 7.0 / 6.0 : 1.0;
      const double stream = step.mixing[0][0] * step.mixing[0][0] * q_in[i];
      const double written = branch.writes[0] * branch.writes[0] * q_branch[i];
      // A norm that divides fixes the size of the branch or of the sum. A pointwise norm passes on the fluctuations of
      // the stream, reduced by its elasticity.
      const bool after_a = branch.norm_a || (branch.shares_input && step.branches.front().norm_a);
      const bool divides = !is_pointwise(m.norm) && (after_a || branch.norm_b || divided_sum);
      // The norm C of the previous step may have fixed the size of the branch's input.
      const std::size_t stream_read = static_cast<std::size_t>(branch.read_stream().value_or(0));
      const bool fixed_size = s > 0 && !is_pointwise(m.norm) && m.step(s - 1).norm_c[stream_read];
      const bool bounded = divides || fixed_size || m.inner_norm_at(branch.sublayer);
      const double norm_elasticity = after_a ? law_of(m.norm).elasticity(q_in[i], norm_use(m)) : 1.0;
      elasticity =
          std::max(elasticity, bounded ? 1.0 : (stream + degree * norm_elasticity * written) / (stream + written));
      const ChannelUnevenness uneven = channel_unevenness(spec, branch.sublayer);
      // One gate per head: σ² has a relative variance E σ⁴/(E σ²)² − 1 of about ½, so 1/(4 H) replaces 1/(32 H).
      const bool of_heads = attends && m.attention_gate_at(branch.layer()) == AttentionGate::head;
      increment += width_term(uneven.width, attends ? uneven.hidden * (of_heads ? 8.0 : 1.0) : 1.0,
                              attends ? 1.0 : uneven.hidden);
    }
    factor.push_back(std::max(1.0, elasticity * elasticity) * factor.back() + increment);
  }
  return factor;
}

}  // namespace periscope::theory
