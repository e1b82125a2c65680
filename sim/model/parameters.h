#pragma once

#include <string>
#include <vector>

#include "sim/spec/weight.h"

namespace periscope {

/// The weights that sublayer 0 … 2L−1 uses, in the order of the dataflow; of −1: the embedding's and its norm; of 2L:
/// the final norm and the head's.
std::vector<Weight> weights_in(const ModelSpec& model, int sublayer);

/// The sublayer with which a parameter is fetched: its own, or −1 or 2L for what no layer owns.
int fetched_with(const ModelSpec& model, const ParameterId& id);

/// Every matrix that the stack uses, from its input to its output; tables only for token input.
std::vector<ParameterId> matrices_of(const StackSpec& spec);
/// The gain of every norm that the stack uses.
std::vector<ParameterId> gains_of(const ModelSpec& model);
/// Every parameter that training changes: matrices first, from the stack's input to its output, then gains, each
/// followed by its bias and its α if the norm has them. QK-norms, which are RMSNorms, have none, and neither have
/// matrices: their biases exist in checkpoints and in weights of given scales (WeightScales) alone.
std::vector<ParameterId> all_parameters_of(const StackSpec& spec);

/// Names as in files: "layers.3.mlp.down.weight", "layers.3.attention.norm_a.gain", "embedding.weight",
/// "final_norm.bias".
std::string name_of(const ParameterId& id);

}  // namespace periscope
