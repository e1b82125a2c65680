#pragma once

#include <map>

#include "sim/model/weights.h"

namespace periscope {

/// Parameters that are held whole in memory and may be replaced between two passes. A matrix or norm that is not among
/// them is left out of what is fetched, a bias is empty.
class ResidentWeights final : public WeightSource {
 public:
  using Parameters = std::map<ParameterId, Tensor>;

  ResidentWeights(ModelSpec model, Parameters parameters)
      : model_(std::move(model)), parameters_(std::move(parameters)) {}
  /// Copies the parameters that another source has now: those that training changes, and biases of matrices.
  ResidentWeights(const StackSpec& spec, const WeightSource& source);

  /// Every call hands out the same tensors, until they are replaced.
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

  [[nodiscard]] const Parameters& parameters() const { return parameters_; }
  /// The parameters, to be replaced by tensors of the same shape, not while a pass holds them.
  [[nodiscard]] Parameters& parameters() { return parameters_; }

 private:
  /// The tensor of a parameter, empty if it is not held.
  [[nodiscard]] Tensor held(const ParameterId& id) const;

  ModelSpec model_;
  Parameters parameters_;
};

}  // namespace periscope
