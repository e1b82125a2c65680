#pragma once

#include <vector>

#include "sim/measure/extremes_probe.h"
#include "sim/measure/gradient_probe.h"
#include "sim/measure/probe.h"

namespace periscope {

/// One pass through a model from token ids.
struct ModelPass {
  std::vector<int> ids;
  std::vector<int> labels;  ///< one per token, no_label for none
  bool backward = false;    ///< gradients too; then there must be a label
  int top = 10;             ///< largest entries of the stream kept per depth
  Hooks hooks = {};         ///< called after the probes
};

/// Results of the pass.
struct ModelReading {
  Reading reading;                        ///< every statistic; with backward also of gradients
  std::vector<Growth> growth;             ///< T15, by sublayer
  std::vector<double> branch_from_gains;  ///< by sublayer, see branch_size_from_gains
  Extremes extremes;                      ///< of the stream and inside modules
  std::vector<double> token_losses;       ///< NaN for a token without label
  double loss;                            ///< their mean over the tokens that have one; NaN if none has
  Tensor input;                           ///< before the embedding norm [T, D]
  Tensor logits;                          ///< [T, V]

  /// Fills the losses from the logits.
  void read_losses(const Backend& ops, const std::vector<int>& labels);
};

/// The probes that fill a ModelReading, from a pass or from recorded signals.
struct ModelProbes {
  ModelProbes(const StackContext& context, int top);

  /// Points into this object.
  [[nodiscard]] Hooks hooks();
  /// Fills everything but losses and tensors; gradients only if `backward`.
  void take_into(const StackContext& context, bool backward, ModelReading& reading);

  Probe probe;
  ExtremesProbe extremes;
  GradientProbe gradients;
};

/// β₀ of every sublayer from norm B's parameters alone, the mean square of the branch that it lets into the stream:
/// β²·(mean(γ_k²) + mean(bias_k²)); NaN for a sublayer without norm B.
/// B_out_k = γ_k n_k + bias_k, where mean(n_k²) over the features is 1 but for ε. So the true mean square is
/// β²·mean(γ_k² n_k² + 2γ_k n_k bias_k + bias_k²), and this value is exact if the normalised branch has equal
/// power on every feature (mean over tokens of n_k² = 1) and, with a bias, no mean (of n_k over tokens). Otherwise the
/// difference says how much the branch leans to features with large gains.
[[nodiscard]] std::vector<double> branch_size_from_gains(const StackContext& context);

/// Forward, and backward if requested. A forward pass keeps the stream, one matrix and the logits; a backward pass
/// also the stream at every depth and one sublayer's matrices.
[[nodiscard]] ModelReading read_model(const StackContext& context, const ModelPass& pass);

}  // namespace periscope
