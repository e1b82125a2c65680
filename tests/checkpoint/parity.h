#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/checkpoint/checkpoint.h"
#include "tests/support/targets.h"

namespace periscope::testing {

using NamedTensors = std::map<std::string, std::vector<double>>;

/// A pass forward and back, with the names of expected.safetensors: logits, loss, streams and all gradients. A model
/// without logits has "output" and streams only. A tensor whose gradient did not come in full is "incomplete.NAME".
NamedTensors run_checkpoint(const Checkpoint& checkpoint, const std::vector<int>& ids, const std::vector<int>& labels,
                            const Target& target);

/// The next token of each, none for the last.
std::vector<int> next_tokens(const std::vector<int>& ids);

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
