#include "sim/core/checks.h"

namespace periscope {

Tensor Backend::activate(Activation kind, Tensor x) const {
  const Checks check(*this, op::Activate::facts, {{"x", x}});
  return run_into<op::Activate>(reused_or_like(x), kind, x);
}

Tensor Backend::activate_backward(Activation kind, Tensor x, const Tensor& dy) const {
  const Checks check(*this, op::ActivateBackward::facts, {{"x", x}, {"dy", dy}});
  check.shape("dy", dy, x.rows(), x.cols());
  return run_into<op::ActivateBackward>(reused_or_like(x), kind, x, dy);
}

Tensor Backend::gated(Activation kind, Tensor gate, const Tensor& up) const {
  const Checks check(*this, op::Gated::facts, {{"gate", gate}, {"up", up}});
  check.shape("up", up, gate.rows(), gate.cols());
  return run_into<op::Gated>(reused_or_like(gate), kind, gate, up);
}

GatedGradient Backend::gated_backward(Activation kind, const Tensor& gate, const Tensor& up, const Tensor& dy) const {
  const Checks check(*this, op::GatedBackward::facts, {{"gate", gate}, {"up", up}, {"dy", dy}});
  check.shape("up", up, gate.rows(), gate.cols());
  check.shape("dy", dy, gate.rows(), gate.cols());
  return run_into<op::GatedBackward>(GatedGradient{.dgate = like(gate), .dup = like(gate)}, kind, gate, up, dy);
}

Tensor Backend::soft_cap(double cap, Tensor x) const {
  const Checks check(*this, op::SoftCap::facts, {{"x", x}});
  check.require(cap > 0.0, "cap must be positive, found {}", cap);
  return run_into<op::SoftCap>(reused_or_like(x), cap, x);
}

Tensor Backend::soft_cap_backward(double cap, Tensor x, const Tensor& dy) const {
  const Checks check(*this, op::SoftCapBackward::facts, {{"x", x}, {"dy", dy}});
  check.require(cap > 0.0, "cap must be positive, found {}", cap);
  check.shape("dy", dy, x.rows(), x.cols());
  return run_into<op::SoftCapBackward>(reused_or_like(x), cap, x, dy);
}

}  // namespace periscope
