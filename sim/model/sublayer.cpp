#include "sim/model/sublayer.h"

#include "sim/model/kept_weights.h"
#include "sim/model/primitives.h"

namespace periscope {

SublayerSignals sublayer_forward(const StackContext& c, int l, const Tensor& x) {
  const SublayerRule rule = c.model.rule(l);
  SublayerSignals s;
  s.a_out = rule.norm_a ? norm_forward(c, l, NormSite::a, x) : x;
  if (rule.input_gain != 1.0) s.a_out = c.ops.scale(rule.input_gain, s.a_out);
  if (ModelSpec::is_attention(l)) {
    s.attention = attention_signals(c, l / 2, s.a_out);
    s.f_out = s.attention.out;
  } else {
    s.mlp = mlp_signals(c, l / 2, s.a_out);
    s.f_out = s.mlp.out;
  }
  s.b_out = rule.norm_b ? norm_forward(c, l, NormSite::b, s.f_out) : s.f_out;
  s.sum = c.ops.axpby(rule.alpha, x, rule.beta, s.b_out);
  s.x_out = rule.norm_c ? norm_forward(c, l, NormSite::c, s.sum) : s.sum;
  return s;
}

Tensor sublayer_backward(const StackContext& context, int l, const Tensor& x, const Tensor& dx_out, const Tensor& dr,
                         GradientObserver& observer) {
  const KeptWeights weights(context.weights);
  const StackContext c{context.ops, context.model, weights, context.sequences};
  const SublayerRule rule = c.model.rule(l);
  const SublayerSignals s = sublayer_forward(c, l, x);

  const Tensor dsum = rule.norm_c ? norm_backward(c, l, NormSite::c, s.sum, dx_out, observer) : dx_out;
  const Tensor db = dr.empty() ? c.ops.scale(rule.beta, dsum) : c.ops.axpby(rule.beta, dsum, rule.beta, dr);
  observer.on_site(l, Signal::B_out, db);
  const Tensor df = rule.norm_b ? norm_backward(c, l, NormSite::b, s.f_out, db, observer) : db;
  observer.on_site(l, Signal::f_out, df);
  const Tensor da = ModelSpec::is_attention(l) ? attention_backward(c, l / 2, s.a_out, s.attention, df, observer)
                                               : mlp_backward(c, l / 2, s.a_out, s.mlp, df, observer);
  observer.on_site(l, Signal::A_out, da);
  Tensor through = rule.input_gain != 1.0 ? c.ops.scale(rule.input_gain, da) : da;
  if (rule.norm_a) through = norm_backward(c, l, NormSite::a, x, through, observer);
  return c.ops.axpby(rule.alpha, dsum, 1.0, through);
}

}  // namespace periscope
