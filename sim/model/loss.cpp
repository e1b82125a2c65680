#include "sim/model/loss.h"

namespace periscope {

Tensor head_forward(SublayerPass& p, const Tensor& output) {
  const StackContext& c = p.context();
  const ModelSpec& m = c.model;
  if (!m.unembedding) return p.emit(Signal::logits, output);
  Tensor x = output;
  if (m.projects_embedding()) x = p.emit(Signal::projected, p.linear(Weight::project_out, x));
  if (m.head.transform) {
    const Tensor dense = p.emit(Signal::dense, p.linear(Weight::head_dense, x));
    const Tensor activated = p.emit(Signal::activated, c.ops.activate(activation_of(m.mlp), dense));
    x = p.emit(Signal::transformed, p.norm(Weight::head_norm, activated));
  }
  Tensor scores = p.emit(Signal::head_scores, p.linear(Weight::unembedding, x));
  if (m.head.scale != 1.0) scores = c.ops.scale(m.head.scale, scores);
  return p.emit(Signal::logits, m.head.soft_cap > 0.0 ? c.ops.soft_cap(m.head.soft_cap, scores) : scores);
}

Tensor head_backward(SublayerPass& p, const Tensor& dlogits) {
  const StackContext& c = p.context();
  const ModelSpec& m = c.model;
  Tensor d = p.emit_backward(Signal::logits, dlogits);
  if (!m.unembedding) return d;
  if (m.head.soft_cap > 0.0) {
    const Tensor scores = p.take(Signal::head_scores);
    d = c.ops.soft_cap_backward(m.head.soft_cap, m.head.scale == 1.0 ? scores : c.ops.scale(m.head.scale, scores), d);
  }
  if (m.head.scale != 1.0) d = c.ops.scale(m.head.scale, d);
  d = p.linear_backward(Weight::unembedding, p.emit_backward(Signal::head_scores, d));
  if (m.head.transform) {
    d = p.norm_backward(Weight::head_norm, p.emit_backward(Signal::transformed, d));
    d = c.ops.activate_backward(activation_of(m.mlp), p.take(Signal::dense), p.emit_backward(Signal::activated, d));
    d = p.linear_backward(Weight::head_dense, p.emit_backward(Signal::dense, d));
  }
  return m.projects_embedding() ? p.linear_backward(Weight::project_out, p.emit_backward(Signal::projected, d)) : d;
}

Tensor logits_forward(const StackContext& c, const Tensor& output, const Hooks& hooks) {
  SublayerPass pass(c, hooks, c.model.sublayers(), Pass::forward, Save::nothing);
  return head_forward(pass, output);
}

Loss loss_of(const StackContext& c, const Tensor& output, std::span<const int> labels, const Hooks& hooks) {
  SublayerPass pass(c, hooks, c.model.sublayers(), Pass::forward, Save::for_backward);
  const Tensor logits = head_forward(pass, output);
  const CrossEntropy loss = c.ops.cross_entropy(logits, labels);
  return {loss.loss, logits, head_backward(pass, loss.dlogits)};
}

Loss backpropagate(const StackContext& c, const Tensor& input, std::span<const int> labels, const Hooks& hooks,
                   std::size_t budget) {
  StackTape tape;
  tape.budget = budget;
  const Tensor output = stack_forward(c, input, hooks, &tape).output;
  Loss loss = loss_of(c, output, labels, hooks);
  loss.gradient = stack_backward(tape, loss.gradient);
  return loss;
}

}  // namespace periscope
