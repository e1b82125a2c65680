#include "sim/model/sublayer.h"

#include <utility>

namespace periscope {

Streams sublayer_forward(SublayerPass& p, const Streams& in) {
  const Backend& ops = p.context().ops;
  const SublayerRule rule = p.context().model.rule(p.sublayer());
  const Tensor x = p.emit(Signal::x_in, in.x);
  Tensor a = rule.norm_a ? p.norm(Weight::norm_a, x) : x;
  if (rule.input_gain != 1.0) a = ops.scale(rule.input_gain, std::move(a));
  a = p.emit(Signal::A_out, a);
  const bool attention = ModelSpec::is_attention(p.sublayer());
  const Tensor f = p.emit(Signal::f_out, attention ? attention_forward(p, a) : mlp_forward(p, a));
  const Tensor b = p.emit(Signal::B_out, rule.norm_b ? p.norm(Weight::norm_b, f) : f);
  const Tensor sum = p.emit(Signal::sum, ops.axpby(rule.alpha, x, rule.beta, b));
  Streams out{p.emit(Signal::x_out, rule.norm_c ? p.norm(Weight::norm_c, sum) : sum)};
  if (!in.second.empty()) out.second = p.emit(Signal::r_out, ops.axpby(1.0, in.second, rule.beta, b));
  return out;
}

Streams sublayer_backward(SublayerPass& p, const Streams& out) {
  const Backend& ops = p.context().ops;
  const SublayerRule rule = p.context().model.rule(p.sublayer());
  const Tensor dr = out.second.empty() ? Tensor{} : p.emit_back(Signal::r_out, out.second);
  const Tensor dx_out = p.emit_back(Signal::x_out, out.x);
  const Tensor dsum = p.emit_back(Signal::sum, rule.norm_c ? p.norm_back(Weight::norm_c, dx_out) : dx_out);
  const Tensor db = p.emit_back(Signal::B_out, !dr.empty()        ? ops.axpby(rule.beta, dsum, rule.beta, dr)
                                               : rule.beta == 1.0 ? dsum
                                                                  : ops.scale(rule.beta, dsum));
  const Tensor df = p.emit_back(Signal::f_out, rule.norm_b ? p.norm_back(Weight::norm_b, db) : db);
  const bool attention = ModelSpec::is_attention(p.sublayer());
  const Tensor da = p.emit_back(Signal::A_out, attention ? attention_backward(p, df) : mlp_backward(p, df));
  Tensor through = rule.input_gain != 1.0 ? ops.scale(rule.input_gain, da) : da;
  if (rule.norm_a) through = p.norm_back(Weight::norm_a, through);
  return {p.emit_back(Signal::x_in, ops.axpby(rule.alpha, dsum, 1.0, through)), dr};
}

}  // namespace periscope
