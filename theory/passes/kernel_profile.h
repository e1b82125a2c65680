#pragma once

#include <utility>
#include <vector>

#include "sim/spec/profile.h"
#include "theory/attention/token_grid.h"
#include "theory/modules/channel_kernel.h"
#include "theory/modules/kernel_streams.h"

namespace periscope::theory {

/// Writes statistics of kernels into a profile, without standard errors (docs/theory/README.md).
class KernelProfile {
 public:
  /// Kernels cover `sequences` concatenated sequences of equal length; cosines are taken within a sequence. With a
  /// grid, kernels cover the grid tokens and statistics all tokens. The grid must outlive this object.
  KernelProfile(const ModelSpec& model, int sequences, const TokenGrid* grid = nullptr)
      : model_(model), width_(model.width), sequences_(sequences), grid_(grid) {}

  void write(int index, Signal signal, const ChannelKernel& x);
  /// Writes the streams at a depth under their names. If several streams are parts of x_out, writes the mean over them;
  /// their maximum is omitted unless they are equal.
  void write(int depth, const StreamEnds& ends, const KernelStreams& streams);
  /// Writes the maximum of the residual sum before the norm C whose output is the stream at `depth`.
  void write_sum(int depth, const ChannelKernel& x);
  /// `scale`: the result of branch_scale.
  void write_branch(int sublayer, double scale, const TokenKernel& stream, const TokenKernel& branch);
  [[nodiscard]] Profile take();

 private:
  /// Computes kurtosis and maximum of normal entries with second moments v [T, D], or [T, 1] if all channels are equal.
  /// Kurtosis is exact for equal channels, otherwise the limit of many channels: 3·mean_k(v²)/mean_k(v)².
  void compute_tails(Matrix second_moments);
  [[nodiscard]] double mean(const Vector& of_tokens) const {
    return grid_ != nullptr ? grid_->mean(of_tokens) : of_tokens.mean();
  }
  [[nodiscard]] double cosine(const Matrix& k) const;
  void set(Statistic statistic, Signal signal, int index, double value);

  const ModelSpec& model_;
  int width_;
  int sequences_;
  const TokenGrid* grid_;
  Profile profile_;
  bool maximum_known_ = true;
  Matrix last_;  // second moments of the last call of compute_tails
  double maximum_ = 0.0;
  double kurtosis_ = 0.0;
};

/// Returns the angular distances between the streams at all pairs of depths, mean over tokens; empty for very deep
/// stacks. `step_cosine`: alpha·√(K/K⁺) for every step and token, K⁺ before norm C. Branches are orthogonal to the
/// stream, so the cosine of two depths is the product over the steps between these depths.
std::vector<double> angular_distances(const std::vector<Vector>& step_cosine, const TokenGrid* grid = nullptr);

}  // namespace periscope::theory
