#include "sim/model/resident_weights.h"

#include "sim/model/parameters.h"

namespace periscope {

ResidentWeights::ResidentWeights(const StackSpec& spec, const WeightSource& source) : model_(spec.model) {
  for (const ParameterId& id : all_parameters_of(spec)) parameters_[id] = parameter_of(source, model_, id);
  for (const ParameterId& id : matrices_of(spec)) {
    if (Tensor bias = parameter_of(source, model_, bias_of(id)); !bias.empty()) parameters_[bias_of(id)] = bias;
  }
}

Tensor ResidentWeights::find(const ParameterId& id) const {
  const auto found = parameters_.find(id);
  return found == parameters_.end() ? Tensor() : found->second;
}

SublayerWeights ResidentWeights::fetch(int sublayer) const {
  SublayerWeights weights;
  for (const Weight weight : weights_in(model_, sublayer)) {
    const ParameterId id = is_norm(weight) ? gain_id(sublayer, weight) : matrix_id(sublayer / 2, weight);
    const Tensor tensor = find(id);
    if (tensor.empty()) continue;
    if (is_norm(weight)) {
      weights.norms[weight] = {.gain = tensor, .bias = find(bias_of(id)), .alpha = find(alpha_of(id))};
    } else {
      weights.linear[weight] = {.map = dense_map([tensor] { return tensor; }), .bias = find(bias_of(id))};
    }
  }
  return weights;
}

Tensor ResidentWeights::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  return ops.gather(parameters_.at(matrix_id(0, table)), ids);
}

}  // namespace periscope
