#include "experiments/engine/training/task.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace periscope::training {

void TrainingHistory::add(const StepOutcome& outcome) {
  loss.push_back(outcome.loss);
  grad_norm.push_back(outcome.grad_norm);
  last_layer_norm.push_back(outcome.last_layer_norm);
}

bool TrainingHistory::is_finite() const {
  return loss.empty() || (std::isfinite(loss.back()) && std::isfinite(grad_norm.back()));
}

std::optional<int> divergence_step(const TrainingHistory& history) {
  const std::vector<double>& loss = history.loss;
  for (std::size_t i = 0; i < loss.size(); ++i) {
    if (!std::isfinite(loss[i]) || !std::isfinite(history.grad_norm[i])) return static_cast<int>(i) + 1;
  }
  const auto last_below = std::find_if(loss.rbegin(), loss.rend(), [&](double x) { return x < loss.front(); });
  const std::ptrdiff_t above = last_below - loss.rbegin();
  constexpr std::ptrdiff_t steps = 20;
  constexpr double mean_ratio = 1.05;  // above 1, as the first batch may be unusually easy
  constexpr double last_ratio = 10.0;
  const bool stays_above =
      above >= steps && std::accumulate(loss.rbegin(), loss.rbegin() + steps, 0.0) > mean_ratio * steps * loss.front();
  if (!stays_above && !(above > 0 && loss.back() > last_ratio * loss.front())) return std::nullopt;
  return std::max(2, static_cast<int>(static_cast<std::ptrdiff_t>(loss.size()) - above) + 1);
}

double mean_of_last_tenth(const TrainingHistory& history, int steps) {
  const std::vector<double>& loss = history.loss;
  if (loss.size() < static_cast<std::size_t>(steps)) return std::numeric_limits<double>::quiet_NaN();
  const std::ptrdiff_t last = std::max(1, steps / 10);
  return std::accumulate(loss.end() - last, loss.end(), 0.0) / static_cast<double>(last);
}

}  // namespace periscope::training
