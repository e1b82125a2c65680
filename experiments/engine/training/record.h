#pragma once

#include "experiments/engine/training/cell.h"

namespace periscope::training {

/// Reads the recorded numbers off a stack while it trains: one forward and backward pass over the same held-out windows
/// every time.
class Recorder {
 public:
  /// The backend outlives this.
  Recorder(const Backend& ops, StackSpec spec, const TrainSpec& train, const Corpus& corpus);

  /// By the names of columns:
  ///   validation_loss [1];
  ///   S.SITE [2L or 2L + 1]: every statistic of every signal of the stream that Probe and GradientProbe read;
  ///   S.weight.W [L]: of every matrix q … down; root_mean_square.weight.W [L]: of its entries;
  ///   growth_stream, growth_branch, growth_cross, growth_sum, growth_residual [2L]: T15;
  ///   gain_mean.N, gain_rms.N [2L]: of the norms A, B, C; NaN where there is none;
  ///   largest [2L]: the largest |x| of any signal of a sublayer; top_magnitudes [100], top_depths [100]: the largest
  ///   entries of the stream at all depths; angular_distance [(2L + 1)²]; attention_entropy [L].
  [[nodiscard]] RecordedValues record(const ResidentWeights& weights) const;

 private:
  const Backend& ops_;
  StackSpec spec_;
  Windows windows_;
};

}  // namespace periscope::training
