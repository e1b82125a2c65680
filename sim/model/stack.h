#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sim/model/step.h"

namespace periscope {

/// Output of a stack.
struct StackOutput {
  Tensor stream;  ///< first stream after the last step [N, D]
  Tensor output;  ///< as defined by StreamEnds, after the final norm [N, D]
};

/// Data of a forward pass that the backward pass needs: the input streams of every layer, and signals inside steps up
/// to the budget; other signals are recomputed. Results do not depend on the budget.
struct StackTape {
  std::size_t budget = 64U << 20U;  ///< remaining bytes for signals inside steps
  const StackContext* context = nullptr;
  Hooks hooks = {};
  std::unique_ptr<SublayerPass> entry;  ///< pass before the first step: embedding norm
  std::vector<Streams> streams;         ///< input of every step; empty for a layer's second step if it is recomputed
  std::vector<std::unique_ptr<StepPass>> passes;  ///< one per step; null if it must be recomputed
  std::unique_ptr<SublayerPass> exit;             ///< pass after the last step: final norm
};

/// Runs the whole stack on input [N, D]. Fills the tape unless it is null; the context must outlive the tape.
StackOutput stack_forward(const StackContext& context, const Tensor& input, const Hooks& hooks = {},
                          StackTape* tape = nullptr);

/// Returns the gradient of the input, given the gradient of the output, both [N, D]. Consumes the tape.
Tensor stack_backward(StackTape& tape, const Tensor& doutput);

/// Parts of stack_forward: embedding norm, steps first … end − 1, final norm. Unless the tape's budget is 0, signals of
/// step end − 1 are saved even beyond the budget, because the backward pass needs them first.
Streams entry_forward(const StackContext& context, const Tensor& input, const Hooks& hooks, StackTape* tape);
Streams steps_forward(const StackContext& context, Streams streams, int first, int end, const Hooks& hooks,
                      StackTape* tape);
Tensor exit_forward(const StackContext& context, const Streams& streams, const Hooks& hooks, StackTape* tape);

/// Parts of stack_backward: final norm, all steps on the tape, embedding norm.
Streams exit_backward(StackTape& tape, const Tensor& doutput);
Streams steps_backward(StackTape& tape, Streams gradients);
Tensor entry_backward(StackTape& tape, const Streams& gradients);

}  // namespace periscope
