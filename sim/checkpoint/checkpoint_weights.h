#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "sim/checkpoint/checkpoint.h"
#include "sim/model/weights.h"

namespace periscope {

/// The weights of a checkpoint, converted at every reading, so that a stack needs the memory of one sublayer. The first
/// `cache` bytes that are read are cached: passes read in one order, in which the last tensor used is needed last. A
/// norm without stored vectors has a gain of 1 and no bias. Numbers are rounded to `dtype`; InputError for a finite f64
/// beyond the range of f32. The checkpoint and the backend outlive this. Safe for threads.
class CheckpointWeights final : public WeightSource {
 public:
  CheckpointWeights(const Backend& backend, const Checkpoint& checkpoint, DType dtype, std::size_t cache = 0)
      : backend_(backend), checkpoint_(checkpoint), dtype_(dtype), room_(cache) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  /// Reads no other rows of the file.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

 private:
  template <class Read>
  [[nodiscard]] Tensor cached_or(const ParameterId& id, const Read& read) const;
  [[nodiscard]] Tensor matrix(const ParameterId& id) const;
  [[nodiscard]] NormWeights norm(const ParameterId& gain) const;
  [[nodiscard]] const StoredPart& part(const ParameterId& id) const;
  /// A gain, bias or α [1, length]; empty if it is not stored.
  [[nodiscard]] Tensor vector(const ParameterId& id, int length) const;

  const Backend& backend_;
  const Checkpoint& checkpoint_;
  DType dtype_;
  mutable std::mutex mutex_;
  mutable std::size_t room_;  ///< bytes that may still be cached
  mutable std::map<ParameterId, Tensor> cached_;
};

}  // namespace periscope
