#include "sim/model/loss.h"

#include "sim/model/head.h"
#include "sim/model/kept_weights.h"

namespace periscope {

Tensor logits_forward(const StackContext& c, const Tensor& output) { return head_forward(c, output).logits; }

Loss loss_of(const StackContext& context, const Tensor& output, std::span<const int> labels,
             GradientObserver& observer) {
  const KeptWeights weights(context.weights);
  const StackContext c{context.ops, context.model, weights, context.sequences};
  const HeadSignals head = head_forward(c, output);
  const CrossEntropy loss = c.ops.cross_entropy(head.logits, labels);
  return {loss.loss, head.logits, head_backward(c, output, head, loss.dlogits, observer)};
}

Backpropagated backpropagate(const StackContext& c, const Tensor& input, std::span<const int> labels,
                             Observer& observer, GradientObserver& gradients) {
  StackTape tape;
  const Tensor output = stack_forward(c, input, observer, &tape).output;
  const Loss loss = loss_of(c, output, labels, gradients);
  return {loss.value, loss.logits, stack_backward(c, std::move(tape), loss.doutput, gradients)};
}

}  // namespace periscope
