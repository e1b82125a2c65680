#include "theory/predict/prediction_errors.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/parallel_for.h"
#include "theory/passes/backward.h"
#include "theory/passes/forward.h"
#include "theory/predict/pattern_level.h"

namespace periscope::theory {
namespace {

/// Interpolation error of a token grid, relative to the standard deviation from one pattern per attention
/// sublayer. Measured in docs/theory/attention_and_mlp.md.
constexpr double grid_share = 0.02;

}  // namespace

double wanted_error(const Prediction& prediction, Statistic statistic, double value) {
  switch (statistic) {
    case Statistic::log_grad_sq: return prediction.gradient_tolerance;
    case Statistic::grad_sq:
    case Statistic::score_share: return prediction.gradient_tolerance * std::abs(value);
    case Statistic::token_cosine:
    case Statistic::branch_cosine: return prediction.tolerance;
    default: return prediction.tolerance * std::abs(value);
  }
}

double worst_error(const Prediction& prediction, const Profile& profile) {
  double worst = 0.0;
  for (const auto& [key, curve] : profile.curves) {
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const double error = curve.standard_error[i];
      if (error > 0.0) worst = std::max(worst, error / wanted_error(prediction, key.first, curve.value[i]));
    }
  }
  return worst;
}

double extrapolate_all(const Prediction& prediction, Profile& profile, const Profile& previous, int level_ratio) {
  double worst = 0.0;
  for (auto& [key, curve] : profile.curves) {
    const Statistic statistic = key.first;
    const bool cosine = statistic == Statistic::token_cosine || statistic == Statistic::branch_cosine;
    const std::vector<double> fixed = extrapolate(curve, previous.curves.at(key), level_ratio, !cosine);
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      if (fixed[i] > 0.0) worst = std::max(worst, 2.0 * fixed[i] / wanted_error(prediction, statistic, curve.value[i]));
    }
  }
  return worst;
}

Profile uniform_grid_error(StackSpec spec, const TokenGrid& grid, const std::vector<std::vector<int>>& labels) {
  constexpr double small = 1e-6;
  spec.init.qk_factor = 0.0;
  spec.init.head_std = small;
  const TokenGrid finer(spec.input.tokens, spec.model.causal, 2.0);
  std::array<Profile, 2> profiles;
  parallel_for(2, [&](int i) {
    ForwardReplicate replicate;
    replicate.grid = i == 0 ? &grid : &finer;
    ForwardTrace trace;
    Profile& profile = profiles[static_cast<std::size_t>(i)];
    profile = forward_profile(spec, replicate, labels.empty() ? nullptr : &trace);
    if (!labels.empty()) backward_profile(spec, replicate, trace, labels, profile);
  });
  for (auto& [key, curve] : profiles[0].curves) {
    const std::vector<double>& other = profiles[1].curves.at(key).value;
    for (std::size_t i = 0; i < other.size(); ++i) {
      const double scale = key.first == Statistic::grad_sq ? std::abs(other[i]) : 1.0;
      curve.value[i] = 4.0 / 3.0 * std::abs(curve.value[i] - other[i]) / scale;
    }
  }
  return profiles[0];
}

double add_grid_error(const Prediction& prediction, Profile& profile, const Profile& level, const Profile& uniform) {
  double worst = 0.0;
  for (auto& [key, curve] : profile.curves) {
    const Curve& sampled = level.curves.at(key);
    const std::vector<double>& interpolated = uniform.curves.at(key).value;
    const bool backward = key.first == Statistic::grad_sq || key.first == Statistic::score_share;
    const double patterns = backward ? prediction.backward_samples : prediction.samples;
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const double scale = key.first == Statistic::grad_sq ? curve.value[i] : 1.0;
      const double grid_error = std::hypot(grid_share * std::sqrt(patterns) * sampled.standard_error[i],
                                           std::isfinite(interpolated[i]) ? scale * interpolated[i] : 0.0);
      curve.standard_error[i] = std::hypot(curve.standard_error[i], grid_error);
      if (grid_error > 0.0) worst = std::max(worst, grid_error / wanted_error(prediction, key.first, curve.value[i]));
    }
  }
  return worst;
}

}  // namespace periscope::theory
