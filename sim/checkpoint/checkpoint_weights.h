#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "sim/checkpoint/checkpoint.h"
#include "sim/model/weights.h"

namespace periscope {

/// Weights of a checkpoint, converted at every read, so that only one sublayer is in memory. The first `cache` bytes
/// stay cached; eviction would not help, because every pass reads tensors in the same order. A norm without stored
/// vectors has gain 1 and no bias. Values are rounded to `dtype`; throws InputError for a finite f64 beyond the range
/// of f32. Checkpoint and backend must outlive this object. Thread-safe.
class CheckpointWeights final : public WeightSource {
 public:
  CheckpointWeights(const Backend& backend, const Checkpoint& checkpoint, DType dtype, std::size_t cache = 0)
      : backend_(backend), checkpoint_(checkpoint), dtype_(dtype), cache_left_(cache) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  /// Reads only rows `ids` from the file.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

 private:
  template <class Read>
  [[nodiscard]] Tensor cached_or(const ParameterId& id, const Read& read) const;
  [[nodiscard]] Tensor matrix(const ParameterId& id) const;
  [[nodiscard]] NormWeights norm(const ParameterId& gain) const;
  [[nodiscard]] const StoredPart& part(const ParameterId& id) const;
  /// Returns a gain, bias or α [1, length]; empty if it is not stored.
  [[nodiscard]] Tensor vector(const ParameterId& id, int length) const;

  const Backend& backend_;
  const Checkpoint& checkpoint_;
  DType dtype_;
  mutable std::mutex mutex_;
  mutable std::size_t cache_left_;  ///< bytes that may still be cached
  mutable std::map<ParameterId, Tensor> cached_;
};

}  // namespace periscope
