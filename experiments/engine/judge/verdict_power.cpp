#include "experiments/engine/judge/verdict_power.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace periscope::judge {
namespace {

double median_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The tolerance, a little larger than needed, that an imprecise gradient's prediction does meet (theory::is_precise).
double met_tolerance(const Cell& cell) {
  const bool absolute = cell.statistic == Statistic::log_grad_sq;
  return 1.1 * cell.predicted_error / (absolute ? 1.0 : std::abs(cell.predicted));
}

}  // namespace

double limit_of(const config::PowerLimits& limits, Statistic statistic) {
  switch (statistic) {
    case Statistic::variance: return limits.variance;
    case Statistic::token_cosine: return limits.token_cosine;
    case Statistic::grad_sq:
    case Statistic::log_grad_sq: return limits.log_grad_sq;
    case Statistic::score_share: return limits.score_share;
    default: return limits.second_moment;
  }
}

double limit_of(const config::PowerLimits& limits, const Cell& cell) {
  const bool module = cell.statistic == Statistic::second_moment && !cell.weight && cell.signal == Signal::f_out;
  return (module ? 2.5 : 1.0) * limit_of(limits, cell.statistic);
}

Power power_of(std::span<const Cell> cells, double level, const config::PowerLimits& limits) {
  Power power;
  std::map<Statistic, std::vector<double>> of_statistic;
  std::map<Statistic, StatisticPower> worst;
  std::vector<double> all;
  bool any_signal = false;
  bool signal_over = false;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].contrast.empty() || !cells[i].is_finite()) continue;
    const double delta = cells[i].smallest_rejected(level);
    all.push_back(delta);
    power.worst = std::max(power.worst, delta);  // never NaN
    of_statistic[cells[i].statistic].push_back(delta);
    StatisticPower& w = worst[cells[i].statistic];
    const double limit = limit_of(limits, cells[i]);
    ++power.cells;
    power.over += delta > limit ? 1 : 0;
    any_signal |= !is_gradient(cells[i].statistic);
    signal_over |= !is_gradient(cells[i].statistic) && delta > limit;
    if (w.cell >= 0 && delta / limit <= w.worst / w.limit) continue;
    w.worst = delta;
    w.limit = limit;
    w.cell = static_cast<int>(i);
  }
  for (auto& [statistic, w] : worst) {
    w.statistic = statistic;
    w.median = median_of(of_statistic[statistic]);
    power.statistics.push_back(w);
  }
  power.median = median_of(std::move(all));
  power.only_gradients_over = power.over > 0 && any_signal && !signal_over;
  return power;
}

std::string error_words(double error) { return std::isinf(error) ? "any amount" : fmt::format("{:.2g}", error); }

std::string shortcoming(std::span<const Cell> cells, const Power& power) {
  for (const Cell& cell : cells) {
    if (std::isinf(cell.allowance)) {
      if (!is_gradient(cell.statistic)) {
        return fmt::format("{} has no allowance: without norms what finite width does to it has no bound", cell.name());
      }
      return fmt::format(
          "{} has no allowance: gradients of its stack fluctuate too much over seeds, or it is too narrow",
          cell.name());
    }
    if (!cell.is_finite()) {
      return fmt::format("{}: measured {}, predicted {}", cell.name(), number_words(cell.measured),
                         number_words(cell.predicted));
    }
  }
  // The most underpowered statistic, in units of its limit.
  const StatisticPower* least = nullptr;
  for (const StatisticPower& s : power.statistics) {
    if (!(s.worst > s.limit)) continue;
    if (least == nullptr || s.worst / s.limit > least->worst / least->limit) least = &s;
  }
  if (least != nullptr) {
    std::string words =
        fmt::format("{} could be off by {}; limit {:g}", cells[static_cast<std::size_t>(least->cell)].name(),
                    error_words(least->worst), least->limit);
    if (power.over > 1) words += fmt::format("; so could {} more of {} cells", power.over - 1, power.cells);
    if (!power.only_gradients_over) return words;
    return words + (power.over > 1 ? ", all of them gradients; the signals agree" : "; the signals agree");
  }
  for (const Cell& cell : cells) {
    if (!cell.contrast.empty()) continue;
    if (cell.allowance > 0.0 && cell.allowance >= cell.scale) {
      return fmt::format("{} has an allowance of {:.2g}, as large as itself", cell.name(), cell.allowance / cell.scale);
    }
    if (!cell.precise) {
      return fmt::format(
          "{} is predicted with a standard error of {:.2g}, larger than wanted; theory.gradient_tolerance = {:.2g} "
          "would be met",
          cell.name(), cell.predicted_error, met_tolerance(cell));
    }
  }
  return {};
}

}  // namespace periscope::judge
