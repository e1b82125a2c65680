#pragma once

#include <vector>

#include "sim/spec/model_spec.h"
#include "theory/attention/token_grid.h"
#include "theory/predict/predict.h"

/// Errors of a prediction relative to the requested errors.
namespace periscope::theory {

/// Returns the requested standard error of a value of this statistic.
[[nodiscard]] double wanted_error(const Prediction& prediction, Statistic statistic, double value);

/// Returns the largest ratio of a standard error to the requested one over all curves.
[[nodiscard]] double worst_error(const Prediction& prediction, const Profile& profile);

/// Extrapolates every curve from the previous level. Returns the largest error that more replicates cannot reduce,
/// divided by half the requested error.
double extrapolate_all(const Prediction& prediction, Profile& profile, const Profile& previous, int level_ratio);

/// Estimates the grid's interpolation error of every value for uniform patterns, which are not sampled, by comparison
/// with a grid of twice as many nodes. Where patterns hardly vary, this is the entire grid error. Errors of squared
/// gradients are relative. Logits of the loss are made small, because larger ones would be sampled.
[[nodiscard]] Profile uniform_grid_error(StackSpec spec, const TokenGrid& grid,
                                         const std::vector<std::vector<int>>& labels);

/// Adds the grid's interpolation error to the errors of `profile`. `level` holds the errors from the patterns of
/// `prediction`. Returns the largest ratio of a grid error to the requested error.
double add_grid_error(const Prediction& prediction, Profile& profile, const Profile& level, const Profile& uniform);

}  // namespace periscope::theory
