#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/agreement/cell.h"

namespace periscope {

/// Above which smallest rejected error (T22) of its worst cell a statistic makes a verdict inconclusive; where they
/// come from: theory/README.md.
struct PowerLimits {
  double second_moment = 0.2;  ///< relative
  double variance = 0.2;       ///< relative
  double token_cosine = 0.2;   ///< absolute
  double log_grad_sq = 0.5;    ///< difference of logarithms
  double score_share = 0.1;    ///< absolute

  /// Of a statistic that verdicts compare; that of log_grad_sq for grad_sq, which stands in for it where it is zero.
  [[nodiscard]] double of(Statistic statistic) const;
  /// Of a cell: two and a half times its statistic's for the size of one module's output, which fluctuates that much
  /// more than the stream that they add up to; its mean over depth is a contrast of its own.
  [[nodiscard]] double of(const Cell& cell) const;
};

/// What the cells of one statistic could have refused.
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
};

Power power_of(std::span<const Cell> cells, double level, const PowerLimits& limits);

/// Why a verdict that nothing was rejected for may not be "agrees", or "": a number that is not finite, a statistic
/// over its limit ("log_grad_sq q[0] could be off by 0.9; limit 0.5"), an allowance as large as what it is granted to,
/// a prediction that missed its precision.
std::string shortcoming(std::span<const Cell> cells, const Power& power);

}  // namespace periscope
