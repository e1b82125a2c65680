#include "sim/model/sublayer.h"

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
  return p.linear(Weight::down, p.emit(Signal::hidden, hidden));
}

Tensor mlp_backward(SublayerPass& p, const Tensor& df_out) {
  const StackContext& c = p.context();
  const Activation activation = activation_of(c.model.mlp);
  const Tensor dhidden = p.emit_back(Signal::hidden, p.linear_back(Weight::down, df_out));
  const auto back = [&](Weight weight, Signal input, Signal output, const Tensor& dy) {
    return p.emit_back(input, p.linear_back(weight, p.emit_back(output, dy)));
  };
  if (!is_gated(c.model.mlp)) {
    const Tensor dup = c.ops.activate_backward(activation, p.at(Signal::up), dhidden);
    return back(Weight::up, Signal::up_in, Signal::up, dup);
  }
  const GatedGradient g = c.ops.gated_backward(activation, p.at(Signal::gate), p.at(Signal::up), dhidden);
  const Tensor from_gate = back(Weight::gate, Signal::gate_in, Signal::gate, g.dgate);
  return c.ops.axpby(1.0, from_gate, 1.0, back(Weight::up, Signal::up_in, Signal::up, g.dup));
}

}  // namespace periscope
