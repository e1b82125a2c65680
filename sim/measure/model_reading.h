#pragma once

#include <map>
#include <vector>

#include "sim/measure/extremes_probe.h"
#include "sim/measure/growth_probe.h"
#include "sim/measure/probe.h"

namespace periscope {

/// One pass through a model from token ids.
struct ModelPass {
  std::vector<int> ids;
  std::vector<int> labels;  ///< one per token, no_label for none
  bool backward = false;    ///< gradients too; then there must be a label
  int top = 10;             ///< largest entries of the stream kept per depth
  Hooks hooks = {};         ///< told besides the probes, after them
};

/// The numbers that the pass showed.
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
};

/// Forward, and if asked for backward. A forward pass keeps the stream, one matrix and the logits; a backward pass
/// also the stream at every depth and one sublayer's matrices.
[[nodiscard]] ModelReading read_model(const StackContext& context, const ModelPass& pass);

}  // namespace periscope
