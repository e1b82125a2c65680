#include "experiments/engine/judge/seed_rows.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "sim/base/mapped.h"
#include "sim/measure/running_moments.h"

namespace periscope::judge {

Estimate mean_over_seeds(const std::vector<double>& per_seed) {
  RunningMoments running;
  for (const double v : per_seed) running.add(v);
  return {running.mean(), running.standard_error()};
}

Curve curve_of(const std::vector<Estimate>& entries) {
  return {mapped(entries, &Estimate::value), mapped(entries, &Estimate::error)};
}

Curve SeedRows::curve() const {
  Curve curve;
  const std::size_t length = rows_.empty() ? 0 : rows_.front().size();
  for (std::size_t i = 0; i < length; ++i) {
    RunningMoments running;
    for (const std::vector<double>& row : rows_) running.add(row[i]);
    curve.value.push_back(running.mean());
    curve.standard_error.push_back(running.standard_error());
  }
  return curve;
}

Estimate SeedRows::sum(const std::vector<double>& weights) const {
  std::vector<double> sums;
  for (const std::vector<double>& row : rows_) {
    double& sum = sums.emplace_back(0.0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (weights[i] != 0.0) sum += weights[i] * row[i];
    }
  }
  return mean_over_seeds(sums);
}

std::vector<double> slope_weights(const std::vector<double>& x, std::size_t from) {
  double mean = 0.0;
  for (std::size_t i = from; i < x.size(); ++i) mean += x[i] / static_cast<double>(x.size() - from);
  double squares = 0.0;
  for (std::size_t i = from; i < x.size(); ++i) squares += (x[i] - mean) * (x[i] - mean);
  if (!(squares > 0.0)) throw std::invalid_argument("a slope needs two different points");
  std::vector<double> weights(x.size(), 0.0);
  for (std::size_t i = from; i < x.size(); ++i) weights[i] = (x[i] - mean) / squares;
  return weights;
}

double slope_of(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> weights = slope_weights(x);
  return std::inner_product(weights.begin(), weights.end(), y.begin(), 0.0);
}

}  // namespace periscope::judge
