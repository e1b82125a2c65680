#include "sim/model/primitives.h"

namespace periscope {
namespace {

struct NormForm {
  NormKind kind;
  int groups;
};

NormForm form_of(const ModelSpec& m, NormSite site) {
  if (site != NormSite::q && site != NormSite::k) return {m.norm, 1};
  if (m.qk_norm == QkNorm::full) return {NormKind::rms, 1};
  return {NormKind::rms, site == NormSite::q ? m.heads : m.kv_heads};
}

}  // namespace

Tensor linear_forward(const StackContext& c, int layer, Weight weight, const Tensor& x) {
  const Tensor y = c.ops.linear(x, c.weights.matrix(layer, weight));
  const Tensor bias = c.weights.bias(layer, weight);
  return bias.empty() ? y : c.ops.add_row(y, bias);
}

Tensor linear_backward(const StackContext& c, int layer, Weight weight, const Tensor& x, const Tensor& dy,
                       GradientObserver& observer) {
  observer.on_weight(layer, weight, c.ops.linear_backward_weight(dy, x));
  if (!c.weights.bias(layer, weight).empty()) observer.on_bias(layer, weight, c.ops.column_sums(dy));
  Tensor dx = c.ops.linear_backward_input(dy, c.weights.matrix(layer, weight));
  observer.on_weight_input(layer, weight, dx);
  return dx;
}

Tensor norm_forward(const StackContext& c, int sublayer, NormSite site, const Tensor& x) {
  const NormWeights w = c.weights.norm(sublayer, site);
  const NormForm form = form_of(c.model, site);
  return c.ops.norm(form.kind, x, w.gain, w.bias, c.model.norm_eps, form.groups);
}

Tensor norm_backward(const StackContext& c, int sublayer, NormSite site, const Tensor& x, const Tensor& dy,
                     GradientObserver& observer) {
  const NormWeights w = c.weights.norm(sublayer, site);
  const NormForm form = form_of(c.model, site);
  const NormGradient g = c.ops.norm_backward(form.kind, x, w.gain, dy, c.model.norm_eps, form.groups);
  observer.on_norm(sublayer, site, g.dgain, w.bias.empty() ? Tensor{} : g.dbias);
  return g.dx;
}

}  // namespace periscope
