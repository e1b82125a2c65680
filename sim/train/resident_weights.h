#pragma once

#include <map>

#include "sim/model/weights.h"

namespace periscope {

/// Parameters that are held whole and may be replaced between two passes.
class ResidentWeights final : public WeightSource {
 public:
  using Parameters = std::map<ParameterId, Tensor>;

  ResidentWeights(StackSpec spec, Parameters parameters) : spec_(std::move(spec)), parameters_(std::move(parameters)) {}
  /// The weights that another source has now.
  ResidentWeights(const StackSpec& spec, const WeightSource& source);

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

  [[nodiscard]] const Parameters& parameters() const { return parameters_; }
  /// To replace tensors by others of the same shape, not while a pass holds them.
  [[nodiscard]] Parameters& parameters() { return parameters_; }

 private:
  [[nodiscard]] Tensor bias(const ParameterId& id) const;

  StackSpec spec_;
  Parameters parameters_;
};

}  // namespace periscope
