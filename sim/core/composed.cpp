#include "sim/core/composed.h"

namespace periscope {

void ComposedBackend::run(const op::Cast& o) const { perform(op::FromHost{to_host(o.x), o.y}); }

void ComposedBackend::run(const op::LinearWeightSquare& o) const {
  const Tensor rows = measure(linear_backward_weight(o.dy, o.x), {.squares = true});
  perform(op::Linear{rows, constant(1, rows.cols(), DType::f64, 1.0), o.square});
}

void ComposedBackend::run(const op::LinearDrawn& o) const {
  perform(op::Linear{o.x, normal(o.w.rows, o.w.cols, o.x.dtype(), o.w.key, o.w.stddev), o.y});
}

void ComposedBackend::run(const op::LinearDrawnBackwardInput& o) const {
  perform(op::LinearBackwardInput{o.dy, normal(o.w.rows, o.w.cols, o.dy.dtype(), o.w.key, o.w.stddev), o.dx});
}

void ComposedBackend::run(const op::Gated& o) const { perform(op::Multiply{activate(o.kind, o.gate), o.up, o.y}); }

void ComposedBackend::run(const op::GatedBackward& o) const {
  perform(op::Multiply{activate_backward(o.kind, o.gate, o.up), o.dy, o.g.dgate});
  perform(op::Multiply{activate(o.kind, o.gate), o.dy, o.g.dup});
}

void ComposedBackend::run(const op::RopeBackward& o) const {
  std::vector<double> negated(o.frequencies.begin(), o.frequencies.end());
  for (double& f : negated) f = -f;
  perform(op::Rope{o.dy, o.heads, o.sequences, negated, 0, o.dx});
}

}  // namespace periscope
