#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/engine/judge/claims.h"
#include "experiments/engine/judge/judge.h"
#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/run/progress.h"
#include "experiments/studies/gradients/config.h"
#include "theory/predict/predict.h"

namespace periscope::gradients {

/// Theory's gradients of the stack `overridden`, which --theory-set may have changed, for the token ids and labels of
/// the run's seeds of the stack that is measured, `spec`: the same unless --theory-set says otherwise. Refused too
/// where the run's dtype cannot show what is predicted (out_of_range). One task of progress.
theory::Prediction predict_gradients(const config::Config& config, const StackSpec& spec, const StackSpec& overridden,
                                     stacks::Progress& progress,
                                     theory::GradientPaths paths = theory::GradientPaths::all);

/// Returns the number of tasks of a study, for Progress::begin: the run's seeds and `predictions` predictions of every
/// stack.
std::int64_t tasks_of(const config::Config& config, std::size_t stacks, int predictions = 1);

/// log ‖∂loss/∂·‖ = ½ log_grad_sq of a place (a Signal or a Weight), measured or predicted.
template <class Place>
Curve log_norm(const Profile& profile, Place place) {
  Curve curve = *profile.find(Statistic::log_grad_sq, place);
  for (double& v : curve.value) v *= 0.5;
  for (double& e : curve.standard_error) e *= 0.5;
  return curve;
}

/// True if every point of that prediction is as precise as was wanted: no test may rest on one that is not.
template <class Place>
std::vector<bool> log_norm_precise(const theory::Prediction& prediction, Place place) {
  const Curve& curve = *prediction.profile.find(Statistic::log_grad_sq, place);
  std::vector<bool> precise;
  for (std::size_t i = 0; i < curve.value.size(); ++i) {
    precise.push_back(theory::is_precise(prediction, Statistic::log_grad_sq, curve, i));
  }
  return precise;
}

/// The bias that T19 tolerates in the mean over seeds of a log norm at `depth`: half of that of
/// log_grad_sq, that is ½c·gradient_width_term, and `variance`, that of the log norm over seeds.
double log_norm_bias(const config::Config& config, const StackSpec& spec, const theory::Prediction& prediction,
                     std::size_t depth, double variance, bool of_attention = false);

}  // namespace periscope::gradients
