#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sim/model/sublayer_pass.h"

namespace periscope {

/// Streams between steps, each [N, D], or their gradients. Empty gradients are 0.
using Streams = std::vector<Tensor>;

/// Σ weights_i x_i over the tensors that are not empty. A single tensor of weight 1 is returned unchanged.
Tensor weighted_sum(const Backend& ops, const std::vector<double>& weights, const std::vector<Tensor>& x);

/// A pass through the branches of one step.
class StepPass {
 public:
  StepPass(const StackContext& context, const Hooks& hooks, int index, Pass pass, Save save);

  [[nodiscard]] const Step& step() const { return step_; }
  [[nodiscard]] const StackContext& context() const { return branches_.front()->context(); }
  [[nodiscard]] SublayerPass& branch(std::size_t index) { return *branches_[index]; }
  /// Pass of the last branch, which also emits the signals of the whole step and owns its norm C.
  [[nodiscard]] SublayerPass& whole() { return *branches_.back(); }

  /// Memory of saved signals in bytes, without weights.
  [[nodiscard]] std::size_t bytes() const;
  void release_weights();

 private:
  Step step_;
  std::vector<std::unique_ptr<SublayerPass>> branches_;
};

/// Computes the streams after one step (sim/spec/block.h).
///
/// Signal x_in of a branch is the input of its norm A. If the first branch reads a single stream, x_in is that stream:
/// a replacement of x_in also replaces the stream, and the gradient of x_in includes the gradient of the stream.
Streams step_forward(StepPass& pass, const Streams& in);

/// Returns the input streams' gradients, given the output streams' gradients. Requires a pass with Save::for_backward.
Streams step_backward(StepPass& pass, const Streams& out);

}  // namespace periscope
