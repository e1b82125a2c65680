#pragma once

#include <vector>

#include "sim/model/context.h"
#include "sim/model/hooks.h"

namespace periscope {

/// Records the entropy −Σ_s A_ts ln A_ts of the attention pattern A for every layer of one forward pass, in nats. It is
/// the mean over query heads and over tokens that attend to at least two tokens; NaN if no token does. Equal attention
/// to n tokens gives ln n. Patterns are recomputed from queries and keys on the host, in double precision.
class AttentionEntropyProbe final : public SignalRecorder {
 public:
  explicit AttentionEntropyProbe(const StackContext& context);
  void on_signal(const Emission& at, const Tensor& x) override;
  /// Returns one entropy per layer.
  [[nodiscard]] const std::vector<double>& entropies() const { return entropies_; }

 private:
  const StackContext& context_;
  Tensor queries_;  // queries of the current attention module
  std::vector<double> entropies_;
};

}  // namespace periscope
