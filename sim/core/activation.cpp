#include "sim/core/checks.h"

namespace periscope {

Tensor Backend::activate(Activation kind, Tensor x) const {
  const Checks check(*this, Op::activate, {{"x", x}});
  Tensor y = reused_or_like(x);
  do_activate(kind, x, y);
  return y;
}

Tensor Backend::activate_backward(Activation kind, Tensor x, const Tensor& dy) const {
  const Checks check(*this, Op::activate_backward, {{"x", x}, {"dy", dy}});
  check.shape("dy", dy, x.rows(), x.cols());
  Tensor dx = reused_or_like(x);
  do_activate_backward(kind, x, dy, dx);
  return dx;
}

Tensor Backend::gated(Activation kind, Tensor gate, const Tensor& up) const {
  const Checks check(*this, Op::gated, {{"gate", gate}, {"up", up}});
  check.shape("up", up, gate.rows(), gate.cols());
  Tensor y = reused_or_like(gate);
  do_gated(kind, gate, up, y);
  return y;
}

GatedGradient Backend::gated_backward(Activation kind, const Tensor& gate, const Tensor& up, const Tensor& dy) const {
  const Checks check(*this, Op::gated_backward, {{"gate", gate}, {"up", up}, {"dy", dy}});
  check.shape("up", up, gate.rows(), gate.cols());
  check.shape("dy", dy, gate.rows(), gate.cols());
  GatedGradient g{.dgate = like(gate), .dup = like(gate)};
  do_gated_backward(kind, gate, up, dy, g);
  return g;
}

Tensor Backend::soft_cap(double cap, Tensor x) const {
  const Checks check(*this, Op::soft_cap, {{"x", x}});
  check.require(cap > 0.0, "cap must be positive, found {}", cap);
  Tensor y = reused_or_like(x);
  do_soft_cap(cap, x, y);
  return y;
}

Tensor Backend::soft_cap_backward(double cap, Tensor x, const Tensor& dy) const {
  const Checks check(*this, Op::soft_cap_backward, {{"x", x}, {"dy", dy}});
  check.require(cap > 0.0, "cap must be positive, found {}", cap);
  check.shape("dy", dy, x.rows(), x.cols());
  Tensor dx = reused_or_like(x);
  do_soft_cap_backward(cap, x, dy, dx);
  return dx;
}

}  // namespace periscope
