#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/engine/judge/cell.h"
#include "experiments/engine/settings/power_limits.h"

namespace periscope::judge {

/// The limit of a statistic that verdicts compare; that of log_grad_sq for grad_sq, which stands in for it where it is
/// zero.
double limit_of(const config::PowerLimits& limits, Statistic statistic);
/// The limit of a cell: two and a half times its statistic's for the size of one module's output, which fluctuates that
/// much more than the stream that they add up to; its mean over depth is a contrast of its own.
double limit_of(const config::PowerLimits& limits, const Cell& cell);

/// The errors that the cells of one statistic could have refused.
struct StatisticPower {
  Statistic statistic = Statistic::second_moment;
  double worst = 0.0;
  double median = 0.0;
  double limit = 0.0;
  int cell = -1;  ///< index of the worst cell, the one with the largest error in units of its limit
};

/// T22 of a verdict: over all single cells, contrasts left out, and for every statistic.
struct Power {
  double worst = 0.0;
  double median = 0.0;
  std::vector<StatisticPower> statistics;
  int cells = 0;                     ///< how many were counted: finite ones, no contrasts
  int over = 0;                      ///< in how many of them an error above the limit could be missed
  bool only_gradients_over = false;  ///< signals were counted, and none of them is over its limit
};

/// Formats a detectable error: "0.12", or "any amount" if it is infinite.
std::string error_words(double error);

Power power_of(std::span<const Cell> cells, double level, const config::PowerLimits& limits);

/// Why a verdict that nothing was rejected for may not be "agrees", or "": a number that is not finite, a statistic
/// over its limit ("log_grad_sq q[0] could be off by 0.9; limit 0.5; so could 3 more of 96 cells, all of them
/// gradients; the signals agree"), a tolerated bias that is infinite or too large, a prediction that missed
/// its precision.
std::string shortcoming(std::span<const Cell> cells, const Power& power);

}  // namespace periscope::judge
