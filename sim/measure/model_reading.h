#pragma once

#include <map>
#include <vector>

#include "sim/measure/extremes_probe.h"
#include "sim/measure/gradient_probe.h"
#include "sim/measure/growth_probe.h"
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
  Reading reading;                                      ///< every statistic; with backward also of gradients
  std::vector<Growth> growth;                           ///< T15, by sublayer
  std::vector<double> branch_from_gains;                ///< by sublayer, see branch_size_from_gains
  std::vector<StreamExtremes> extremes;                 ///< by depth
  std::map<Signal, std::vector<double>> inside_maxima;  ///< max |x| by sublayer, NaN where there is no such signal
  std::vector<double> token_losses;                     ///< NaN for a token without label
  double loss;                                          ///< their mean over the tokens that have one; NaN if none has
  Tensor input;                                         ///< before the embedding norm [T, D]
  Tensor logits;                                        ///< [T, V]

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
  GrowthProbe growth;
  ExtremesProbe extremes;
  GradientProbe gradients;
};

/// Forward, and backward if requested. A forward pass keeps the stream, one matrix and the logits; a backward pass
/// also the stream at every depth and one sublayer's matrices.
[[nodiscard]] ModelReading read_model(const StackContext& context, const ModelPass& pass);

}  // namespace periscope
