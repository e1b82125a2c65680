#pragma once

#include <utility>
#include <vector>

#include "sim/spec/profile.h"
#include "theory/attention/token_grid.h"
#include "theory/modules/channel_kernel.h"
#include "theory/modules/kernel_streams.h"

namespace periscope::theory {

/// Writes the statistics of kernels into a profile, without standard errors (docs/theory/ says how).
class KernelProfile {
 public:
  /// The tokens are those of `sequences` sequences of equal length; cosines are within each. With a grid, which
  /// outlives this, kernels are those of its kept tokens, and statistics those of all tokens of one sequence.
  KernelProfile(const ModelSpec& model, int sequences, const TokenGrid* grid = nullptr)
      : model_(model), width_(model.width), sequences_(sequences), grid_(grid) {}

  void write(int index, Signal signal, const ChannelKernel& x);
  /// The streams at a depth, by their names. Of several that are parts of x_out the means over them are written,
  /// without the maximum of all where they are not one and the same.
  void write(int depth, const StreamEnds& ends, const KernelStreams& streams);
  /// Writes the maximum of the sum before the norm C whose output is the stream at `depth`.
  void write_sum(int depth, const ChannelKernel& x);
  /// `scale` as branch_scale has it.
  void write_branch(int sublayer, double scale, const TokenKernel& stream, const TokenKernel& branch);
  [[nodiscard]] Profile take();

 private:
  /// Kurtosis and maximum of normal entries with these second moments v [T, D], or [T, 1] where channels are alike.
  /// Kurtosis is then exact, and else the limit of many channels: 3·mean_k(v²)/mean_k(v)².
  void read_tails(Matrix entries);
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
  Matrix last_;  // the second moments whose maximum was taken last
  double maximum_ = 0.0;
  double kurtosis_ = 0.0;
};

/// Between the streams at all pairs of depths, mean over tokens; empty for very deep stacks. `step_cosine`: of every
/// sublayer, alpha·√(K/K⁺ before norm C) per token. Fresh branches are orthogonal to the past, so the cosine of two
/// depths is the product over the sublayers between.
std::vector<double> angular_distances(const std::vector<Vector>& step_cosine, const TokenGrid* grid = nullptr);

}  // namespace periscope::theory
