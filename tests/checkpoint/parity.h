#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/checkpoint/checkpoint.h"
#include "tests/support/targets.h"

namespace periscope::testing {

using NamedTensors = std::map<std::string, std::vector<double>>;

/// Runs forward and backward and returns logits, loss, streams and all gradients by their names in
/// expected.safetensors. A model without logits has "output" and streams only. "incomplete.NAME" marks a tensor with an
/// incomplete gradient.
NamedTensors run_checkpoint(const Checkpoint& checkpoint, const std::vector<int>& ids, const std::vector<int>& labels,
                            const Target& target);

/// Returns the next token of every token; the last has no label.
std::vector<int> next_tokens(const std::vector<int>& ids);

/// Deviation of one tensor from transformers.
struct TensorError {
  std::string name;    ///< as in expected.safetensors: "stream.3", "grad.weight.model.norm.weight"
  double error = 0.0;  ///< max|ours − theirs| / max|theirs|
};

/// Runs the checkpoint on input_ids of expected.safetensors and compares logits, loss, streams and all gradients. The
/// labels are `labels` of that file or the next tokens. Without RoPE, the gradient of a key bias is only rounding, so
/// its error is relative to the gradient of the key weights. An unmatched tensor has an infinite error.
std::vector<TensorError> compare_with_expected(const std::string& folder, const Target& target);

TensorError worst_of(const std::vector<TensorError>& errors);

}  // namespace periscope::testing
