#pragma once

#include <string>
#include <vector>

#include "sim/checkpoint/checkpoint.h"
#include "tests/support/targets.h"

namespace periscope::testing {

/// How far one tensor of a pass is from the public implementation's.
struct TensorError {
  std::string name;    ///< as in expected.safetensors: "stream.3", "grad.weight.model.norm.weight"
  double error = 0.0;  ///< max|ours − theirs| over max|theirs|
};

/// Loads `folder`, runs its expected.safetensors' input_ids forward and back, and compares logits, loss, every
/// stream, every gradient of a stream and of a stored tensor. The loss is that of the next token, or of `labels` if
/// the file has them. The gradient of a key's bias is 0 but for RoPE and rounding, since softmax does not see it:
/// its error is relative to the gradient of the key's weights. A tensor that only one of the two has counts as
/// infinitely wrong.
std::vector<TensorError> compare_with_expected(const std::string& folder, const Target& target);

/// The largest.
TensorError worst_of(const std::vector<TensorError>& errors);

}  // namespace periscope::testing
