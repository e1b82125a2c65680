#include "sim/model/loss.h"

#include "sim/model/head.h"

namespace periscope {

Tensor logits_forward(const StackContext& c, const Tensor& output, const Hooks& hooks) {
  SublayerPass pass(c, hooks, c.model.sublayers(), Pass::forward, Keep::nothing);
  return head_forward(pass, output);
}

Loss loss_of(const StackContext& c, const Tensor& output, std::span<const int> labels, const Hooks& hooks) {
  SublayerPass pass(c, hooks, c.model.sublayers(), Pass::forward, Keep::for_the_way_back);
  const Tensor logits = head_forward(pass, output);
  const CrossEntropy loss = c.ops.cross_entropy(logits, labels);
  return {loss.loss, logits, head_backward(pass, loss.dlogits)};
}

Backpropagated backpropagate(const StackContext& c, const Tensor& input, std::span<const int> labels,
                             const Hooks& hooks) {
  StackTape tape;
  const Tensor output = stack_forward(c, input, hooks, &tape).output;
  const Loss loss = loss_of(c, output, labels, hooks);
  return {loss.value, loss.logits, stack_backward(tape, loss.doutput)};
}

}  // namespace periscope
