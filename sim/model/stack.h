#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sim/model/step.h"

namespace periscope {

/// The output of a stack.
struct StackOutput {
  Tensor stream;  ///< the first stream after the last step [N, D]
  Tensor output;  ///< as StreamEnds says, with the final norm [N, D]
};

/// Data of the forward pass for the backward pass: the streams that entered every layer, and the signals inside its
/// steps within the budget; the others are recomputed. Results do not depend on the budget.
struct StackTape {
  std::size_t budget = 64U << 20U;  ///< bytes that are left for the signals inside steps
  const StackContext* context = nullptr;
  Hooks hooks = {};
  std::unique_ptr<SublayerPass> entry;  ///< before the first step
  std::vector<Streams> streams;         ///< before every step; empty before a layer's second that is computed again
  std::vector<std::unique_ptr<StepPass>> passes;  ///< of these steps, null if not kept
  std::unique_ptr<SublayerPass> exit;             ///< after the last one: final norm
};

/// Every step, from the embedding norm to the final norm, on input [N, D]. Fills the tape, if there is one; the context
/// outlives it.
StackOutput stack_forward(const StackContext& context, const Tensor& input, const Hooks& hooks = {},
                          StackTape* tape = nullptr);

/// Gradient of the input (before the embedding norm) from that of the output, both [N, D]. The hooks are those of the
/// forward pass. The tape is used up.
Tensor stack_backward(StackTape& tape, const Tensor& doutput);

/// The parts of stack_forward: the embedding norm, the steps first … end − 1, the final norm. Unless the tape's budget
/// is 0 it stores the signals of step end − 1 even beyond the budget: the backward pass needs them first.
Streams enter_stack(const StackContext& context, const Tensor& input, const Hooks& hooks, StackTape* tape);
Streams pass_steps(const StackContext& context, Streams streams, int first, int end, const Hooks& hooks,
                   StackTape* tape);
Tensor leave_stack(const StackContext& context, const Streams& streams, const Hooks& hooks, StackTape* tape);

/// The parts of stack_backward: back through the final norm, through all steps on the tape, and to the input.
Streams back_into_stack(StackTape& tape, const Tensor& doutput);
Streams back_through_steps(StackTape& tape, Streams gradients);
Tensor back_to_input(StackTape& tape, const Streams& gradients);

}  // namespace periscope
