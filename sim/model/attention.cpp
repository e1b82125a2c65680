#include <algorithm>
#include <span>
#include <utility>

#include "sim/model/key_value_cache.h"
#include "sim/model/modules.h"

namespace periscope {
namespace {

int layer_of(const SublayerPass& p) { return p.sublayer() / 2; }

/// Returns the number of cached tokens, which precede the tokens of this pass.
Tensor::Index offset_of(const StackContext& c) { return c.cache != nullptr ? c.cache->tokens() : 0; }

AttentionShape shape_of(const SublayerPass& p) {
  const StackContext& c = p.context();
  const ModelSpec& m = c.model;
  const int layer = layer_of(p);
  return {m.heads, m.kv_heads_at(layer), m.head_dim_at(layer), c.sequences, m.causal, m.scores_at(layer), offset_of(c)};
}

/// QK-norm weight and head count of the queries or the keys.
struct Heads {
  Weight norm;
  int count;
};

Heads query_heads(const SublayerPass& p) { return {Weight::q_norm, p.context().model.heads}; }
Heads key_heads(const SublayerPass& p) { return {Weight::k_norm, p.context().model.kv_heads_at(layer_of(p))}; }

/// Multiplies queries or keys by the factors of RoPE's pairs. The map is diagonal, so it equals its transpose.
Tensor with_rope_gains(const SublayerPass& p, const Heads& heads, Tensor x) {
  const StackContext& c = p.context();
  const std::vector<double> gains = c.model.rope_gains_at(layer_of(p));
  if (gains.empty()) return x;
  std::vector<double> all;
  for (int half = 0; half < 2 * heads.count; ++half) all.insert(all.end(), gains.begin(), gains.end());
  return c.ops.norm(NormKind::none, x, c.ops.from_host(1, x.cols(), x.dtype(), all), {}, c.model.norm_eps);
}

Tensor heads_forward(SublayerPass& p, const Heads& heads, const Tensor& projected) {
  const StackContext& c = p.context();
  Tensor x = c.model.qk_norm_at(layer_of(p)) != QkNorm::none ? p.norm(heads.norm, projected) : projected;
  if (!c.model.rope) return x;
  x = with_rope_gains(p, heads, std::move(x));
  return c.ops.rope(x, heads.count, c.sequences, c.model.rope_frequencies_at(layer_of(p)), offset_of(c));
}

Tensor heads_backward(SublayerPass& p, const Heads& heads, const Tensor& dy) {
  const StackContext& c = p.context();
  Tensor dx = dy;
  if (c.model.rope) {
    dx = c.ops.rope_backward(dy, heads.count, c.sequences, c.model.rope_frequencies_at(layer_of(p)));
    dx = with_rope_gains(p, heads, std::move(dx));
  }
  return c.model.qk_norm_at(layer_of(p)) != QkNorm::none ? p.norm_backward(heads.norm, dx) : dx;
}

/// Values after their norm (if any), as stored in a key/value cache.
Tensor values_forward(SublayerPass& p, const Tensor& a_out) {
  Tensor v = p.linear(Weight::v, p.emit(Signal::v_in, a_out));
  if (p.context().model.v_norm_at(layer_of(p))) v = p.norm(Weight::v_norm, p.emit(Signal::v_projected, v));
  return p.emit(Signal::v, v);
}

Tensor values_backward(SublayerPass& p, const Tensor& dy) {
  Tensor dv = p.emit_backward(Signal::v, dy);
  if (p.context().model.v_norm_at(layer_of(p)))
    dv = p.emit_backward(Signal::v_projected, p.norm_backward(Weight::v_norm, dv));
  return p.emit_backward(Signal::v_in, p.linear_backward(Weight::v, dv));
}

// Gates on the heads' outputs before W_o: mixed ∘ σ(g) with g = W_g A_out. g has one entry per channel, or one per
// query head, which then applies to all channels of the head.

AttentionGate gate_of(const SublayerPass& p) { return p.context().model.attention_gate_at(layer_of(p)); }

/// Matrix [H·e, H] that repeats every head's value for its channels; its transpose sums over the channels of a head.
/// Entries are 0 and 1, exact in every format. It has H/D times as many entries as W_q.
Tensor channels_of_heads(const SublayerPass& p, DType dtype) {
  const StackContext& c = p.context();
  const auto heads = static_cast<std::size_t>(c.model.heads);
  const auto e = static_cast<Tensor::Index>(c.model.head_dim_at(layer_of(p)));
  const auto fill = [&]<class T>(Tensor::Index first, Tensor::Index count, std::span<T> values) {
    for (Tensor::Index i = 0; i < count; ++i) {
      const std::span<T> row = values.subspan(static_cast<std::size_t>(i) * heads, heads);
      std::fill(row.begin(), row.end(), T(0));
      row[static_cast<std::size_t>((first + i) / e)] = T(1);
    }
  };
  return c.ops.from_rows(c.model.query_width(layer_of(p)), c.model.heads, dtype, fill);
}

/// g [N, H] or [N, H·e]; empty without gates.
Tensor gate_forward(SublayerPass& p, const Tensor& a_out) {
  if (gate_of(p) == AttentionGate::none) return {};
  return p.emit(Signal::attention_gate, p.linear(Weight::attention_gate, p.emit(Signal::gate_in, a_out)));
}

/// mixed∘σ(g) [N, H·e], or `mixed` if g is empty.
Tensor gated_heads_forward(SublayerPass& p, const Tensor& mixed, const Tensor& gate) {
  if (gate.empty()) return mixed;
  const StackContext& c = p.context();
  Tensor y;
  if (gate_of(p) == AttentionGate::channel) {
    y = c.ops.gated(Activation::sigmoid, gate, mixed);
  } else {
    const Tensor open = c.ops.activate(Activation::sigmoid, gate);
    y = c.ops.multiply(c.ops.linear(open, channels_of_heads(p, gate.dtype())), mixed);
  }
  return p.emit(Signal::gated_mixed, std::move(y));
}

/// Gradients of the heads' outputs [N, H·e], and of A_out through W_g (empty without gates).
struct GateGradient {
  Tensor dmixed;
  Tensor da_out;
};

GateGradient gated_heads_backward(SublayerPass& p, const Tensor& dgated) {
  if (gate_of(p) == AttentionGate::none) return {dgated, {}};
  const StackContext& c = p.context();
  const Tensor dy = p.emit_backward(Signal::gated_mixed, dgated);
  const Tensor gate = p.take(Signal::attention_gate);
  const Tensor mixed = p.take(Signal::mixed);
  GatedGradient g;
  if (gate_of(p) == AttentionGate::channel) {
    g = c.ops.gated_backward(Activation::sigmoid, gate, mixed, dy);
  } else {
    const Tensor channels = channels_of_heads(p, gate.dtype());
    g.dup = c.ops.multiply(c.ops.linear(c.ops.activate(Activation::sigmoid, gate), channels), dy);
    const Tensor of_heads = c.ops.linear_backward_input(c.ops.multiply(mixed, dy), channels);
    g.dgate = c.ops.activate_backward(Activation::sigmoid, gate, of_heads);
  }
  const Tensor da =
      p.linear_backward(Weight::attention_gate, p.emit_backward(Signal::attention_gate, std::move(g.dgate)));
  return {std::move(g.dup), p.emit_backward(Signal::gate_in, da)};
}

/// Attends to the keys and values of this pass and of the cache.
AttentionOutput attend(const SublayerPass& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  const StackContext& c = p.context();
  if (c.cache == nullptr) return c.ops.attention(q, k, v, shape_of(p));
  const KeysAndValues& all = c.cache->extend(c.ops, layer_of(p), k, v);
  return c.ops.attention(q, all.k, all.v, shape_of(p));
}

}  // namespace

Tensor attention_forward(SublayerPass& p, const Tensor& a_out) {
  const Tensor q_projected = p.emit(Signal::q_projected, p.linear(Weight::q, p.emit(Signal::q_in, a_out)));
  const Tensor k_projected = p.emit(Signal::k_projected, p.linear(Weight::k, p.emit(Signal::k_in, a_out)));
  const Tensor v = values_forward(p, a_out);
  const Tensor gate = gate_forward(p, a_out);
  const Tensor q = p.emit(Signal::q, heads_forward(p, query_heads(p), q_projected));
  const Tensor k = p.emit(Signal::k, heads_forward(p, key_heads(p), k_projected));
  const AttentionOutput attended = attend(p, q, k, v);
  p.emit(Signal::scores, attended.scores);
  Tensor y = gated_heads_forward(p, p.emit(Signal::mixed, attended.mixed), gate);
  if (p.context().model.inner_norm_at(p.sublayer())) y = p.emit(Signal::inner, p.norm(Weight::inner_norm, y));
  return p.linear(Weight::o, y);
}

Tensor attention_backward(SublayerPass& p, const Tensor& df_out) {
  const Backend& ops = p.context().ops;
  Tensor dread = p.linear_backward(Weight::o, df_out);
  if (p.context().model.inner_norm_at(p.sublayer())) {
    dread = p.norm_backward(Weight::inner_norm, p.emit_backward(Signal::inner, dread));
  }
  const GateGradient after_gate = gated_heads_backward(p, dread);
  const Tensor dmixed = p.emit_backward(Signal::mixed, after_gate.dmixed);
  const AttentionGradient g =
      ops.attention_backward(p.take(Signal::q), p.take(Signal::k), p.take(Signal::v), dmixed, shape_of(p));
  const Tensor dq = heads_backward(p, query_heads(p), p.emit_backward(Signal::q, g.dq));
  const Tensor dk = heads_backward(p, key_heads(p), p.emit_backward(Signal::k, g.dk));
  const auto through = [&](Weight weight, Signal projected, Signal read, const Tensor& dy) {
    return p.emit_backward(read, p.linear_backward(weight, p.emit_backward(projected, dy)));
  };
  const Tensor from_q = through(Weight::q, Signal::q_projected, Signal::q_in, dq);
  const Tensor from_k = through(Weight::k, Signal::k_projected, Signal::k_in, dk);
  const Tensor from_v = values_backward(p, g.dv);
  const Tensor sum = ops.axpby(1.0, from_v, 1.0, ops.axpby(1.0, from_q, 1.0, from_k));
  return after_gate.da_out.empty() ? sum : ops.axpby(1.0, sum, 1.0, after_gate.da_out);
}

}  // namespace periscope
