#include <utility>

#include "sim/model/modules.h"

namespace periscope {

Tensor mlp_forward(SublayerPass& p, const Tensor& a_out) {
  const StackContext& c = p.context();
  const Activation activation = activation_of(c.model.mlp);
  const auto read = [&](Weight weight, Signal input, Signal output) {
    return p.emit(output, p.linear(weight, p.emit(input, a_out)));
  };
  const Tensor up = read(Weight::up, Signal::up_in, Signal::up);
  Tensor hidden;
  if (is_gated(c.model.mlp)) {
    hidden = c.ops.gated(activation, read(Weight::gate, Signal::gate_in, Signal::gate), up);
  } else {
    hidden = c.ops.activate(activation, up);
  }
  hidden = p.emit(Signal::hidden, std::move(hidden));
  if (!c.model.inner_norm_at(p.sublayer())) return p.linear(Weight::down, hidden);
  return p.linear(Weight::down, p.emit(Signal::inner, p.norm(Weight::inner_norm, hidden)));
}

Tensor mlp_backward(SublayerPass& p, const Tensor& df_out) {
  const StackContext& c = p.context();
  const Activation activation = activation_of(c.model.mlp);
  // These gradients are the widest of a stack, so each is released as early as possible.
  Tensor dhidden = p.linear_backward(Weight::down, df_out);
  if (c.model.inner_norm_at(p.sublayer())) {
    dhidden = p.norm_backward(Weight::inner_norm, p.emit_backward(Signal::inner, std::move(dhidden)));
  }
  dhidden = p.emit_backward(Signal::hidden, std::move(dhidden));
  const auto back = [&](Weight weight, Signal input, Signal output, Tensor dy) {
    return p.emit_backward(input, p.linear_backward(weight, p.emit_backward(output, std::move(dy))));
  };
  if (!is_gated(c.model.mlp)) {
    Tensor dup = c.ops.activate_backward(activation, p.take(Signal::up), std::exchange(dhidden, {}));
    return back(Weight::up, Signal::up_in, Signal::up, std::move(dup));
  }
  GatedGradient g =
      c.ops.gated_backward(activation, p.take(Signal::gate), p.take(Signal::up), std::exchange(dhidden, {}));
  const Tensor from_gate = back(Weight::gate, Signal::gate_in, Signal::gate, std::move(g.dgate));
  return c.ops.axpby(1.0, from_gate, 1.0, back(Weight::up, Signal::up_in, Signal::up, std::move(g.dup)));
}

}  // namespace periscope
