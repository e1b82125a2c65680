#include "sim/model/head.h"

#include "sim/model/primitives.h"

namespace periscope {

HeadSignals head_forward(const StackContext& c, const Tensor& output) {
  const ModelSpec& m = c.model;
  HeadSignals s;
  s.projected = s.dense = s.activated = s.transformed = s.scores = s.logits = output;
  if (!m.unembedding) return s;
  if (m.projects_embedding()) s.projected = linear_forward(c, 0, Weight::project_out, output);
  s.transformed = s.projected;
  if (m.head.transform) {
    s.dense = linear_forward(c, 0, Weight::head_dense, s.projected);
    s.activated = c.ops.activate(activation_of(m.mlp), s.dense);
    s.transformed = norm_forward(c, m.sublayers(), NormSite::head, s.activated);
  }
  s.scores = linear_forward(c, 0, Weight::unembedding, s.transformed);
  s.logits = m.head.soft_cap > 0.0 ? c.ops.soft_cap(m.head.soft_cap, s.scores) : s.scores;
  return s;
}

Tensor head_backward(const StackContext& c, const Tensor& output, const HeadSignals& s, const Tensor& dlogits,
                     GradientObserver& observer) {
  const ModelSpec& m = c.model;
  if (!m.unembedding) return dlogits;
  Tensor d = m.head.soft_cap > 0.0 ? c.ops.soft_cap_backward(m.head.soft_cap, s.scores, dlogits) : dlogits;
  d = linear_backward(c, 0, Weight::unembedding, s.transformed, d, observer);
  if (m.head.transform) {
    d = norm_backward(c, m.sublayers(), NormSite::head, s.activated, d, observer);
    d = c.ops.activate_backward(activation_of(m.mlp), s.dense, d);
    d = linear_backward(c, 0, Weight::head_dense, s.projected, d, observer);
  }
  return m.projects_embedding() ? linear_backward(c, 0, Weight::project_out, output, d, observer) : d;
}

}  // namespace periscope
