#include "sim/model/mlp.h"

#include "sim/model/primitives.h"

namespace periscope {

MlpSignals mlp_signals(const StackContext& c, int layer, const Tensor& x) {
  const Activation activation = activation_of(c.model.mlp);
  MlpSignals s;
  s.up = linear_forward(c, layer, Weight::up, x);
  if (is_gated(c.model.mlp)) {
    s.gate = linear_forward(c, layer, Weight::gate, x);
    s.hidden = c.ops.gated(activation, s.gate, s.up);
  } else {
    s.hidden = c.ops.activate(activation, s.up);
  }
  s.out = linear_forward(c, layer, Weight::down, s.hidden);
  return s;
}

Tensor mlp_forward(const StackContext& c, int layer, const Tensor& x) { return mlp_signals(c, layer, x).out; }

Tensor mlp_backward(const StackContext& c, int layer, const Tensor& x, const MlpSignals& s, const Tensor& dy,
                    GradientObserver& observer) {
  const Activation activation = activation_of(c.model.mlp);
  const Tensor dhidden = linear_backward(c, layer, Weight::down, s.hidden, dy, observer);
  if (!is_gated(c.model.mlp)) {
    return linear_backward(c, layer, Weight::up, x, c.ops.activate_backward(activation, s.up, dhidden), observer);
  }
  const GatedGradient g = c.ops.gated_backward(activation, s.gate, s.up, dhidden);
  const Tensor from_gate = linear_backward(c, layer, Weight::gate, x, g.dgate, observer);
  return c.ops.axpby(1.0, from_gate, 1.0, linear_backward(c, layer, Weight::up, x, g.dup, observer));
}

}  // namespace periscope
