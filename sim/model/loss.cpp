#include "sim/model/loss.h"

#include "sim/model/kept_weights.h"
#include "sim/model/primitives.h"

namespace periscope {

Tensor logits_forward(const StackContext& c, const Tensor& output) {
  return c.model.unembedding ? linear_forward(c, 0, Weight::unembedding, output) : output;
}

Loss loss_of(const StackContext& context, const Tensor& output, std::span<const int> labels,
             GradientObserver& observer) {
  const KeptWeights weights(context.weights);
  const StackContext c{context.ops, context.model, weights, context.sequences};
  const Tensor logits = logits_forward(c, output);
  const CrossEntropy loss = c.ops.cross_entropy(logits, labels);
  if (!c.model.unembedding) return {loss.loss, logits, loss.dlogits};
  return {loss.loss, logits, linear_backward(c, 0, Weight::unembedding, output, loss.dlogits, observer)};
}

Backpropagated backpropagate(const StackContext& c, const Tensor& input, std::span<const int> labels,
                             Observer& observer, GradientObserver& gradients) {
  StackTape tape;
  const Tensor output = stack_forward(c, input, observer, &tape).output;
  const Loss loss = loss_of(c, output, labels, gradients);
  return {loss.value, loss.logits, stack_backward(c, std::move(tape), loss.doutput, gradients)};
}

}  // namespace periscope
