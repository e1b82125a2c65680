#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/spec/block.h"
#include "theory/modules/channel_kernel.h"
#include "theory/modules/stream_pairs.h"

namespace periscope::theory {

/// The kernels of a stack's streams (sim/spec/block.h) and those between them, E⟨x_i,t, x_j,t'⟩/D. Fresh branches are
/// centred and independent of everything before, so they add to each.
class KernelStreams {
 public:
  /// All begin as x, of `width` features.
  KernelStreams(const ChannelKernel& x, int streams, int width)
      : width_(width),
        own_(static_cast<std::size_t>(streams), x),
        pairs_(streams > 1 ? own_.size() : 0, x.total.product) {}

  [[nodiscard]] const ChannelKernel& operator[](std::size_t stream) const { return own_[stream]; }
  [[nodiscard]] std::size_t count() const { return own_.size(); }
  /// The kernel of Σ_i weights_i x_i. Throws std::logic_error for several streams whose channels differ in size.
  [[nodiscard]] ChannelKernel sum(const std::vector<double>& weights) const;
  /// E⟨Σ_i a_i x_i, Σ_j b_j x_j⟩/D over tokens, of several streams.
  [[nodiscard]] Matrix between(const std::vector<double>& a, const std::vector<double>& b) const {
    return pairs_.sum(a, b);
  }
  /// True if all streams are one and the same.
  [[nodiscard]] bool are_equal() const;

  /// T6: what a step adds up, before its norms C; `branches` are its B_out.
  void add(const Step& step, const std::vector<ChannelKernel>& branches);
  /// Replaces a stream's kernel by that after a norm, which multiplies every token by its entry of `scale`.
  void normalise(std::size_t stream, ChannelKernel normalised, const Vector& scale);

 private:
  void set_own_pairs();

  int width_;
  std::vector<ChannelKernel> own_;
  StreamPairs<Matrix> pairs_;  // none of a single stream
};

/// The one entry that is not 0, if the others are.
std::optional<std::size_t> only_entry(const std::vector<double>& weights);

}  // namespace periscope::theory
