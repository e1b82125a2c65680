#pragma once

#include <vector>

#include "sim/measure/extremes_probe.h"
#include "sim/measure/gradient_probe.h"
#include "sim/measure/probe.h"

namespace periscope {

/// One pass through a model from token ids.
struct ModelPass {
  std::vector<int> ids;
  std::vector<int> labels;  ///< one per token; no_label for tokens without a label
  bool backward = false;    ///< also compute gradients; requires at least one label
  int top = 10;             ///< number of largest stream entries recorded per depth
  Hooks hooks = {};         ///< further hooks, called after the probes
};

struct ModelReading {
  Reading reading;                        ///< all statistics; gradient statistics only with `backward`
  std::vector<Growth> growth;             ///< terms of the growth identity (T15), per sublayer
  std::vector<double> branch_from_gains;  ///< per sublayer, result of branch_size_from_gains
  Extremes extremes;                      ///< largest entries of the stream and inside modules
  std::vector<double> token_gradients;    ///< GradientProbe::token_squares; empty without `backward`
  std::vector<double> token_losses;       ///< cross-entropy per token in nats; NaN without a label
  double loss;                            ///< mean of token_losses over labelled tokens; NaN if there are none
  Tensor input;                           ///< input before the embedding norm [T, D]
  Tensor logits;                          ///< [T, V]

  /// Computes the losses from the logits.
  void read_losses(const Backend& ops, const std::vector<int>& labels);
};

/// Probes that fill a ModelReading, from a pass or from recorded signals.
struct ModelProbes {
  /// `lengths`: see Probe.
  ModelProbes(const StackContext& context, int top, const std::vector<int>& lengths = {});

  /// Returns hooks that point into this object.
  [[nodiscard]] Hooks hooks();
  /// Fills everything except losses and tensors; gradients only if `backward`.
  void take_into(const StackContext& context, bool backward, ModelReading& reading);

  Probe probe;
  ExtremesProbe extremes;
  GradientProbe gradients;
};

/// Mean square of the branch added by every sublayer, computed from norm B's parameters only: β²·(mean(γ_k²) +
/// mean(bias_k²)); NaN for a sublayer without norm B.
/// B_out_k = γ_k n_k + bias_k, where mean(n_k²) over features is 1 up to ε, so the true mean square is β²·mean(γ_k²
/// n_k² + 2γ_k n_k bias_k + bias_k²). The result is exact if n_k has mean square 1 over tokens for every feature and,
/// with a bias, mean 0. Otherwise the difference shows how much the branch concentrates on features with large gains.
[[nodiscard]] std::vector<double> branch_size_from_gains(const StackContext& context);

/// Runs a forward pass, and a backward pass if requested. A forward pass needs memory for the stream, one matrix and
/// the logits; a backward pass also needs the stream at every depth and the matrices of one sublayer.
[[nodiscard]] ModelReading read_model(const StackContext& context, const ModelPass& pass);

}  // namespace periscope
