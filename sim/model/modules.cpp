#include "sim/model/stack.h"

namespace periscope {
namespace {

/// QK-norm of T3: an RMSNorm of every head, or of the whole projection.
Tensor qk_norm(const StackContext& c, int layer, NormSite site, int heads, const Tensor& x) {
  if (c.model.qk_norm == QkNorm::none) return x;
  const NormWeights w = c.weights.norm(2 * layer, site);
  return c.ops.norm(NormKind::rms, x, w.gain, w.bias, c.model.norm_eps, c.model.qk_norm == QkNorm::head ? heads : 1);
}

}  // namespace

Tensor attention_forward(const StackContext& c, int layer, const Tensor& x) {
  const ModelSpec& m = c.model;
  Tensor q = c.ops.linear(x, c.weights.matrix(layer, Weight::q));
  Tensor k = c.ops.linear(x, c.weights.matrix(layer, Weight::k));
  const Tensor v = c.ops.linear(x, c.weights.matrix(layer, Weight::v));
  q = qk_norm(c, layer, NormSite::q, m.heads, q);
  k = qk_norm(c, layer, NormSite::k, m.kv_heads, k);
  if (m.rope) {
    q = c.ops.rope(q, m.heads, c.sequences, rope_base);
    k = c.ops.rope(k, m.kv_heads, c.sequences, rope_base);
  }
  const AttentionShape shape{m.heads, m.kv_heads, m.head_dim, c.sequences, m.causal};
  return c.ops.linear(c.ops.attention(q, k, v, shape), c.weights.matrix(layer, Weight::o));
}

Tensor mlp_forward(const StackContext& c, int layer, const Tensor& x) {
  const Activation activation = activation_of(c.model.mlp);
  const Tensor up = c.ops.linear(x, c.weights.matrix(layer, Weight::up));
  const Tensor hidden = is_gated(c.model.mlp)
                            ? c.ops.gated(activation, c.ops.linear(x, c.weights.matrix(layer, Weight::gate)), up)
                            : c.ops.activate(activation, up);
  return c.ops.linear(hidden, c.weights.matrix(layer, Weight::down));
}

Tensor norm_forward(const StackContext& c, int sublayer, NormSite site, const Tensor& x) {
  const NormWeights w = c.weights.norm(sublayer, site);
  return c.ops.norm(c.model.norm, x, w.gain, w.bias, c.model.norm_eps);
}

}  // namespace periscope
