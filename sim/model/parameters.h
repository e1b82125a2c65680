#pragma once

#include <string>
#include <vector>

#include "sim/spec/weight.h"

namespace periscope {

/// Weights of a sublayer in the order of computation. Sublayer −1 has the embedding and its norm, 2L the final norm and
/// the head.
std::vector<Weight> weights_in(const ModelSpec& model, int sublayer);

/// Returns the indices of the experts that have this weight; {−1} if the weight does not belong to experts.
std::vector<int> experts_of(const ModelSpec& model, Weight weight);

/// Returns the sublayer that owns a parameter; −1 or 2L for parameters outside layers.
int owner_sublayer(const ModelSpec& model, const ParameterId& id);

/// All matrices of a stack, from its input to its output; tables only for token input.
std::vector<ParameterId> matrices_of(const StackSpec& spec);
/// Gains of all norms of a stack.
std::vector<ParameterId> gains_of(const ModelSpec& model);
/// All trainable parameters: matrices from the stack's input to its output, then gains, each followed by its bias and α
/// if the norm has them. QK-norms are RMSNorms and have neither. Biases of matrices exist only in checkpoints and in
/// weights with given scales (WeightScales).
std::vector<ParameterId> all_parameters_of(const StackSpec& spec);

/// Name in files: "layers.3.mlp.down.weight", "layers.3.mlp.experts.5.down.weight", "layers.3.attention.norm_a.gain",
/// "embedding.weight", "final_norm.bias".
std::string name_of(const ParameterId& id);

}  // namespace periscope
