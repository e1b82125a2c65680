#include "sim/core/checks.h"

namespace periscope {

Tensor Backend::activate(Activation kind, Tensor x) const {
  const Checks check(*this, op::Activate::facts, {{"x", x}});
  Tensor y = reused_or_like(x);
  run(op::Activate{kind, x, y});
  return y;
}

Tensor Backend::activate_backward(Activation kind, Tensor x, const Tensor& dy) const {
  const Checks check(*this, op::ActivateBackward::facts, {{"x", x}, {"dy", dy}});
  check.shape("dy", dy, x.rows(), x.cols());
  Tensor dx = reused_or_like(x);
  run(op::ActivateBackward{kind, x, dy, dx});
  return dx;
}

Tensor Backend::gated(Activation kind, Tensor gate, const Tensor& up) const {
  const Checks check(*this, op::Gated::facts, {{"gate", gate}, {"up", up}});
  check.shape("up", up, gate.rows(), gate.cols());
  Tensor y = reused_or_like(gate);
  run(op::Gated{kind, gate, up, y});
  return y;
}

GatedGradient Backend::gated_backward(Activation kind, const Tensor& gate, const Tensor& up, const Tensor& dy) const {
  const Checks check(*this, op::GatedBackward::facts, {{"gate", gate}, {"up", up}, {"dy", dy}});
  check.shape("up", up, gate.rows(), gate.cols());
  check.shape("dy", dy, gate.rows(), gate.cols());
  GatedGradient g{.dgate = like(gate), .dup = like(gate)};
  run(op::GatedBackward{kind, gate, up, dy, g});
  return g;
}

Tensor Backend::soft_cap(double cap, Tensor x) const {
  const Checks check(*this, op::SoftCap::facts, {{"x", x}});
  check.require(cap > 0.0, "cap must be positive, found {}", cap);
  Tensor y = reused_or_like(x);
  run(op::SoftCap{cap, x, y});
  return y;
}

Tensor Backend::soft_cap_backward(double cap, Tensor x, const Tensor& dy) const {
  const Checks check(*this, op::SoftCapBackward::facts, {{"x", x}, {"dy", dy}});
  check.require(cap > 0.0, "cap must be positive, found {}", cap);
  check.shape("dy", dy, x.rows(), x.cols());
  Tensor dx = reused_or_like(x);
  run(op::SoftCapBackward{cap, x, dy, dx});
  return dx;
}

}  // namespace periscope
