#pragma once

#include <vector>

#include "sim/model/context.h"
#include "sim/model/hooks.h"

namespace periscope {

/// Records, for every layer of one forward pass, the entropy −Σ_s A_ts ln A_ts of the attention pattern A: mean over
/// query heads and over the tokens that see at least two, in nat; NaN without such a token. It is ln n for equal
/// attention to n tokens. Patterns are recomputed from queries and keys, on the host and in double.
class AttentionEntropyProbe final : public SignalRecorder {
 public:
  explicit AttentionEntropyProbe(const StackContext& context);
  void on_signal(const Emission& at, const Tensor& x) override;
  /// Returns the entropies by layer.
  [[nodiscard]] const std::vector<double>& entropies() const { return entropies_; }

 private:
  const StackContext& context_;
  Tensor queries_;  // of the attention module that is passed just now
  std::vector<double> entropies_;
};

}  // namespace periscope
