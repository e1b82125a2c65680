#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/spec/block.h"
#include "theory/modules/channel_kernel.h"
#include "theory/modules/stream_pairs.h"

namespace periscope::theory {

/// Kernels of a stack's streams (sim/spec/block.h) and their cross kernels E⟨x_i,t, x_j,t'⟩/D. Branches are centred and
/// independent of all earlier signals, so their kernels add.
class KernelStreams {
 public:
  /// Every stream starts as x, with `width` features.
  KernelStreams(const ChannelKernel& x, int streams, int width)
      : width_(width),
        own_(static_cast<std::size_t>(streams), x),
        pairs_(streams > 1 ? own_.size() : 0, x.total.product) {}

  [[nodiscard]] const ChannelKernel& operator[](std::size_t stream) const { return own_[stream]; }
  [[nodiscard]] std::size_t count() const { return own_.size(); }
  /// Returns the kernel of Σ_i weights_i x_i. Throws std::logic_error if mixed streams have channels of different size.
  [[nodiscard]] ChannelKernel sum(const std::vector<double>& weights) const;
  /// Returns E⟨Σ_i a_i x_i, Σ_j b_j x_j⟩/D [T, T]. Requires at least two streams.
  [[nodiscard]] Matrix between(const std::vector<double>& a, const std::vector<double>& b) const {
    return pairs_.sum(a, b);
  }
  /// Returns true if all streams are the same signal.
  [[nodiscard]] bool are_equal() const;

  /// Applies the residual sums of a step (T6), but not its norms C; `branches` are its branches after norm B.
  void add(const Step& step, const std::vector<ChannelKernel>& branches);
  /// Replaces the kernel of a stream after a norm that multiplied token t by scale_t.
  void normalise(std::size_t stream, ChannelKernel normalised, const Vector& scale);

 private:
  void update_diagonal_pairs();

  int width_;
  std::vector<ChannelKernel> own_;
  StreamPairs<Matrix> pairs_;  // empty for a single stream
};

/// Returns the index of the only nonzero entry, or nullopt; 0 for a single entry.
std::optional<std::size_t> only_entry(const std::vector<double>& weights);

}  // namespace periscope::theory
