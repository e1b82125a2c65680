#include "experiments/engine/judge/contrasts.h"

#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "experiments/engine/judge/agreement.h"
#include "experiments/engine/judge/findings.h"

namespace periscope::judge {
namespace {

/// The key of one contrast: statistic, place, and of modules whether it is attention.
using Group = std::tuple<Statistic, Signal, std::optional<Weight>, std::string>;

Group group_of(const Cell& cell) {
  std::string kind;
  if (!cell.weight && cell.signal == Signal::f_out) kind = ModelSpec::is_attention(cell.index) ? "attention " : "mlp ";
  return {cell.statistic, cell.signal, cell.weight, kind};
}

/// The weighted sum of each row's numbers at the cells' places.
Estimate weighted(const SeedCurves::Rows& rows, const std::vector<const Cell*>& cells,
                  const std::vector<double>& weights) {
  std::vector<double> sums;
  for (const std::vector<double>& row : rows) {
    double& sum = sums.emplace_back(0.0);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      sum += weights[i] * row.at(static_cast<std::size_t>(cells[i]->index)) / cells[i]->scale;
    }
  }
  return mean_over_seeds(sums);
}

/// The error and the spread of the same sum over the replicates of T25's chain, within each sequence of token ids.
void from_draws(const theory::Prediction& prediction, const std::vector<const Cell*>& cells,
                const std::vector<double>& weights, Cell& result) {
  const int block = prediction.draws_per_sequence;
  double squares = 0.0;
  for (std::size_t first = 0; first + static_cast<std::size_t>(block) <= prediction.draws.size();
       first += static_cast<std::size_t>(block)) {
    SeedCurves::Rows rows;
    for (std::size_t r = first; r < first + static_cast<std::size_t>(block); ++r) {
      rows.push_back(prediction.draws[r].find(result.statistic, result.signal)->value);
    }
    const double error = weighted(rows, cells, weights).error;  // NaN for one replicate
    squares += error * error * block * (block - 1.0);
  }
  result.spread_degrees = prediction.finite_width_degrees;
  result.replicates = prediction.finite_width_replicates;
  result.spread = std::sqrt(squares / result.spread_degrees);
  result.predicted_error = result.spread / std::sqrt(result.replicates);
}

Cell contrast(const std::string& name, const SeedCurves::Rows& rows, const std::vector<const Cell*>& cells,
              const std::vector<double>& weights) {
  Cell result = *cells.front();
  result.contrast = name;
  result.index = 0;
  result.scale = 1.0;
  const Estimate measured = weighted(rows, cells, weights);
  double predicted = 0.0;
  double error = 0.0;
  result.allowance = 0.0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = *cells[i];
    predicted += weights[i] * cell.predicted / cell.scale;
    error += std::abs(weights[i]) * cell.predicted_error / cell.scale;
    result.allowance += std::abs(weights[i]) * cell.allowance / cell.scale;
  }
  // As a deviation from the prediction.
  result.measured = measured.value - predicted;
  result.measured_error = measured.error;
  result.predicted = 0.0;
  result.predicted_error = error;
  result.spread_degrees = 0;  // of one cell, not of the sum
  return result;
}

}  // namespace

std::vector<Cell> contrasts(const Comparison& comparison, const std::vector<Cell>& cells) {
  if (comparison.per_seed == nullptr) return {};
  std::map<Group, std::vector<const Cell*>> groups;
  for (const Cell& cell : cells) {
    // Cells of grad_sq stand in for log_grad_sq where a gradient is about zero; they take no part in contrasts.
    if (cell.statistic == Statistic::grad_sq || !cell.is_finite() || !(cell.scale > 0.0)) continue;
    groups[group_of(cell)].push_back(&cell);
  }
  std::vector<Cell> all;
  for (const auto& entry : groups) {
    const auto& [statistic, signal, weight, kind] = entry.first;
    const std::vector<const Cell*>& members = entry.second;
    const SeedCurves::Rows* rows =
        weight ? comparison.per_seed->find(statistic, *weight) : comparison.per_seed->find(statistic, signal);
    if (rows == nullptr || members.size() < 2) continue;
    const std::vector<double> equal(members.size(), 1.0 / static_cast<double>(members.size()));
    const bool drawn = !weight && comparison.prediction.exact_at_width_for(statistic, signal) &&
                       comparison.prediction.draws_per_sequence > 1;
    const auto add = [&](const std::string& name, const std::vector<double>& weights) {
      Cell cell = contrast(std::get<std::string>(entry.first) + name, *rows, members, weights);
      if (drawn) from_draws(comparison.prediction, members, weights, cell);
      all.push_back(cell);
    };
    add("mean", equal);
    if (members.size() < 3) continue;
    std::vector<double> x;
    for (const Cell* cell : members) x.push_back(cell->index);
    std::vector<double> slope = slope_weights(x);
    for (double& w : slope) w *= x.back() - x.front();
    add("slope", slope);
  }
  return all;
}

}  // namespace periscope::judge
