#pragma once

#include "sim/checkpoint/checkpoint.h"
#include "sim/model/weights.h"

namespace periscope {

/// The weights of a checkpoint. Matrices are read and converted at every reading, so that a stack needs the memory of
/// one sublayer. A norm without stored vectors has a gain of 1 and no bias.
/// Numbers are converted to f64 exactly and rounded to `dtype`. The checkpoint and the backend outlive this.
class CheckpointWeights final : public WeightSource {
 public:
  CheckpointWeights(const Backend& backend, const Checkpoint& checkpoint, DType dtype)
      : backend_(backend), checkpoint_(checkpoint), dtype_(dtype) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  /// Reads no other rows of the file.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

 private:
  [[nodiscard]] Tensor matrix(const ParameterId& id) const;
  [[nodiscard]] NormWeights norm(const ParameterId& gain) const;
  [[nodiscard]] const StoredPart& part(const ParameterId& id) const;
  [[nodiscard]] Tensor vector(const StoredPart& part, int length) const;

  const Backend& backend_;
  const Checkpoint& checkpoint_;
  DType dtype_;
};

}  // namespace periscope
