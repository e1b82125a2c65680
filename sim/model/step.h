#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sim/model/sublayer_pass.h"

namespace periscope {

/// The streams between steps, each [N, D], or their gradients: what nothing depends on has an empty one.
using Streams = std::vector<Tensor>;

/// Σ weights_i x_i over what is not empty; one of weight 1 is itself. `weights` are as many as the tensors.
Tensor weighted_sum(const Backend& ops, const std::vector<double>& weights, const std::vector<Tensor>& x);

/// One pass through the branches of a step.
class StepPass {
 public:
  StepPass(const StackContext& context, const Hooks& hooks, int index, Pass pass, Keep keep);

  [[nodiscard]] const Step& step() const { return step_; }
  [[nodiscard]] const StackContext& context() const { return branches_.front()->context(); }
  [[nodiscard]] SublayerPass& branch(std::size_t index) { return *branches_[index]; }
  /// What emits the signals of the step as a whole, and has its norm C: the pass of its last branch.
  [[nodiscard]] SublayerPass& whole() { return *branches_.back(); }

  /// Memory that is kept, weights left out.
  [[nodiscard]] std::size_t bytes() const;
  void release_weights();

 private:
  Step step_;
  std::vector<std::unique_ptr<SublayerPass>> branches_;
};

/// The streams after one step (sim/spec/block.h), from those before it.
///
/// The signal x_in of a branch is what it reads. A branch that reads one stream reads all that the step has of this
/// stream: what is put in its place goes on in the stream, too, and its gradient is that of both.
Streams step_forward(StepPass& pass, const Streams& in);

/// Gradients of the streams that entered from those of the streams that left. The pass must have kept what the backward
/// pass needs.
Streams step_backward(StepPass& pass, const Streams& out);

}  // namespace periscope
