#pragma once

#include <vector>

#include "theory/predict/predict.h"

namespace periscope::theory {

/// predict() for sequences that are the windows of one batch, `labels` those of the same number (or none at all), where
/// the loss is the mean over all tokens of the batch. Gradients are those of that loss: a weight's is the mean of the
/// windows' own, E‖Σ_i g_i/B‖² = (Σ_i E‖g_i‖² + Σ_i≠j E⟨g_i, g_j⟩)/B², and two windows' gradients have in common what
/// their tokens and labels have. T2–T11 run on pairs of windows, whose kernels hold both and what is between them.
/// Every other statistic is the mean over the windows; a maximum is left out. options.labels are not read. Throws as
/// pairs_of_windows does.
Prediction predict_batch(const StackSpec& spec, const std::vector<std::vector<int>>& windows,
                         const std::vector<std::vector<int>>& labels, const PredictionOptions& options);

}  // namespace periscope::theory
