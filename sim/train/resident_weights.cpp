#include "sim/train/resident_weights.h"

#include "sim/model/parameters.h"

namespace periscope {

ResidentWeights::ResidentWeights(const StackSpec& spec, const WeightSource& source) : spec_(spec) {
  for (const ParameterId& id : all_parameters_of(spec)) parameters_[id] = parameter_of(source, spec.model, id);
}

Tensor ResidentWeights::bias(const ParameterId& id) const {
  const auto it = parameters_.find(bias_of(id));
  return it == parameters_.end() ? Tensor() : it->second;
}

SublayerWeights ResidentWeights::fetch(int sublayer) const {
  SublayerWeights weights;
  for (const Weight weight : weights_in(spec_.model, sublayer)) {
    if (is_norm(weight)) {
      const ParameterId id = gain_id(sublayer, weight);
      weights.norms[weight] = {.gain = parameters_.at(id), .bias = bias(id)};
    } else {
      const ParameterId id = matrix_id(is_of_layer(weight) ? sublayer / 2 : 0, weight);
      weights.linear[weight] = {.map = dense_map([matrix = parameters_.at(id)] { return matrix; }), .bias = bias(id)};
    }
  }
  return weights;
}

Tensor ResidentWeights::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  return ops.gather(parameters_.at(matrix_id(0, table)), ids);
}

}  // namespace periscope
