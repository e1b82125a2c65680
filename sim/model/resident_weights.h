#pragma once

#include <map>

#include "sim/model/weights.h"

namespace periscope {

/// Parameters in memory, which may be replaced between passes. fetch() omits missing parameters.
class ResidentWeights final : public WeightSource {
 public:
  using Parameters = std::map<ParameterId, Tensor>;

  ResidentWeights(ModelSpec model, Parameters parameters)
      : model_(std::move(model)), parameters_(std::move(parameters)) {}
  /// Copies the trainable parameters and the biases of matrices from another source.
  ResidentWeights(const StackSpec& spec, const WeightSource& source);

  /// Returns the same tensors in every call, until they are replaced.
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

  [[nodiscard]] const Parameters& parameters() const { return parameters_; }
  /// Replace entries only by tensors of the same shape, and not during a pass.
  [[nodiscard]] Parameters& parameters() { return parameters_; }

 private:
  /// Returns the tensor of a parameter, or an empty one if it is missing.
  [[nodiscard]] Tensor find(const ParameterId& id) const;

  ModelSpec model_;
  Parameters parameters_;
};

}  // namespace periscope
