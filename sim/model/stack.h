#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sim/model/sublayer.h"

namespace periscope {

/// The output of a stack.
struct StackOutput {
  Tensor stream;  ///< x after the last sublayer [N, D]
  Tensor output;  ///< after the final norm; ResiDual: stream + N(r) [N, D]
};

/// Holds what a backward pass needs of the forward pass. Of every layer the streams that entered are kept, and the
/// signals inside as long as the budget lasts; the other layers are computed again. Results do not depend on the
/// budget.
struct StackTape {
  std::size_t budget = 64U << 20U;  ///< bytes that are left for the signals inside sublayers
  const StackContext* context = nullptr;
  Hooks hooks = {};
  std::unique_ptr<SublayerPass> entry;  ///< before the first sublayer
  std::vector<Streams> streams;         ///< before every sublayer; empty before an MLP that is computed again
  std::vector<std::unique_ptr<SublayerPass>> passes;  ///< of these sublayers, null if not kept
  std::unique_ptr<SublayerPass> exit;                 ///< after the last one: final norm
};

/// T1 for every sublayer, from the embedding norm to the final norm, on input [N, D]. Only the streams are kept, unless
/// a tape is given, which is then filled: the context must live as long as it.
StackOutput stack_forward(const StackContext& context, const Tensor& input, const Hooks& hooks = {},
                          StackTape* tape = nullptr);

/// Gradient of the input (before the embedding norm) from that of the output, both [N, D]. The hooks are those of the
/// forward pass. The tape is used up.
Tensor stack_backward(StackTape& tape, const Tensor& doutput);

/// The parts of stack_forward: the embedding norm, the sublayers first … end − 1, the final norm. Unless the tape's
/// budget is 0 it keeps the signals of sublayer end − 1 even beyond the budget: the backward pass needs them first,
/// when nothing else of it exists.
Streams enter_stack(const StackContext& context, const Tensor& input, const Hooks& hooks, StackTape* tape);
Streams pass_sublayers(const StackContext& context, Streams streams, int first, int end, const Hooks& hooks,
                       StackTape* tape);
Tensor leave_stack(const StackContext& context, const Streams& streams, const Hooks& hooks, StackTape* tape);

/// The parts of stack_backward: back through the final norm, through all sublayers on the tape, and to the input.
Streams back_into_stack(StackTape& tape, const Tensor& doutput);
Streams back_through_sublayers(StackTape& tape, Streams gradients);
Tensor back_to_input(StackTape& tape, const Streams& gradients);

}  // namespace periscope
