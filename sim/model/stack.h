#pragma once

#include <vector>

#include "sim/model/sublayer.h"

namespace periscope {

/// What leaves a stack.
struct StackOutput {
  Tensor stream;  ///< x after the last sublayer [N, D]
  Tensor output;  ///< after the final norm; ResiDual: stream + N(r) [N, D]
};

/// What a backward pass needs of the forward pass; everything else is computed again.
struct StackTape {
  Tensor input;                 ///< before the embedding norm [N, D]
  std::vector<Tensor> streams;  ///< x at depths 0 … 2L, each [N, D]
  Tensor second_stream;         ///< ResiDual: r after the last sublayer
};

/// T1 for every sublayer, from the embedding norm to the final norm. Only the stream is kept, unless a tape
/// is given, which is then filled.
StackOutput stack_forward(const StackContext& context, const Tensor& input, Observer& observer,
                          StackTape* tape = nullptr);

/// Gradient of the input (before the embedding norm) from that of the output, both [N, D]. The tape is used
/// up from its end.
Tensor stack_backward(const StackContext& context, StackTape tape, const Tensor& doutput, GradientObserver& observer);

}  // namespace periscope
