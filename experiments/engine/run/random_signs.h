#pragma once

#include <cstdint>

#include "sim/model/weights.h"

namespace periscope::stacks {

/// The weights of another source with every |W_ij| kept and every sign drawn, the finest null of T29: what such models
/// do is due to the sizes of weights, all of them, and to nothing else. Signs of matrices, tables and biases are those
/// of the numbers that GeneratedWeights draws from the same seed; gains are kept as they are. The source and the
/// backend outlive this.
class RandomSigns final : public WeightSource {
 public:
  RandomSigns(const Backend& backend, const WeightSource& source, std::uint64_t seed)
      : backend_(backend), source_(source), seed_(seed) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  /// A token that comes twice has the same signs both times.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

 private:
  const Backend& backend_;
  const WeightSource& source_;
  std::uint64_t seed_;
};

}  // namespace periscope::stacks
