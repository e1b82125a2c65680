#include "sim/model/attention.h"

#include "sim/model/primitives.h"

namespace periscope {
namespace {

AttentionShape shape_of(const StackContext& c, int layer) {
  return {c.model.heads, c.model.kv_heads, c.model.head_dim, c.sequences, c.model.causal, c.model.scores_at(layer)};
}

/// From a projection to what the heads read: QK-norm, then RoPE.
Tensor heads_forward(const StackContext& c, int layer, NormSite site, int heads, const Tensor& projected) {
  const bool normed = c.model.qk_norm != QkNorm::none;
  const Tensor x = normed ? norm_forward(c, 2 * layer, site, projected) : projected;
  return c.model.rope ? c.ops.rope(x, heads, c.sequences, c.model.rope_frequencies_at(layer)) : x;
}

Tensor heads_backward(const StackContext& c, int layer, NormSite site, int heads, const Tensor& projected,
                      const Tensor& dy, GradientObserver& observer) {
  const Tensor dx = c.model.rope ? c.ops.rope_backward(dy, heads, c.sequences, c.model.rope_frequencies_at(layer)) : dy;
  const bool normed = c.model.qk_norm != QkNorm::none;
  return normed ? norm_backward(c, 2 * layer, site, projected, dx, observer) : dx;
}

}  // namespace

AttentionSignals attention_signals(const StackContext& c, int layer, const Tensor& x) {
  AttentionSignals s;
  s.q_projected = linear_forward(c, layer, Weight::q, x);
  s.k_projected = linear_forward(c, layer, Weight::k, x);
  s.v = linear_forward(c, layer, Weight::v, x);
  s.q = heads_forward(c, layer, NormSite::q, c.model.heads, s.q_projected);
  s.k = heads_forward(c, layer, NormSite::k, c.model.kv_heads, s.k_projected);
  s.mixed = c.ops.attention(s.q, s.k, s.v, shape_of(c, layer)).mixed;
  s.out = linear_forward(c, layer, Weight::o, s.mixed);
  return s;
}

Tensor attention_forward(const StackContext& c, int layer, const Tensor& x) {
  return attention_signals(c, layer, x).out;
}

Tensor attention_backward(const StackContext& c, int layer, const Tensor& x, const AttentionSignals& s,
                          const Tensor& dy, GradientObserver& observer) {
  const Tensor dmixed = linear_backward(c, layer, Weight::o, s.mixed, dy, observer);
  const AttentionGradient g = c.ops.attention_backward(s.q, s.k, s.v, dmixed, shape_of(c, layer));
  const Tensor dq = heads_backward(c, layer, NormSite::q, c.model.heads, s.q_projected, g.dq, observer);
  const Tensor dk = heads_backward(c, layer, NormSite::k, c.model.kv_heads, s.k_projected, g.dk, observer);
  const Tensor from_q = linear_backward(c, layer, Weight::q, x, dq, observer);
  const Tensor from_k = linear_backward(c, layer, Weight::k, x, dk, observer);
  const Tensor from_v = linear_backward(c, layer, Weight::v, x, g.dv, observer);
  return c.ops.axpby(1.0, from_v, 1.0, c.ops.axpby(1.0, from_q, 1.0, from_k));
}

}  // namespace periscope
