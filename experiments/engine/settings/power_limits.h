#pragma once

namespace periscope::config {

/// Above which smallest rejected error (T22) of its worst cell a statistic makes a verdict inconclusive; where they
/// come from: docs/theory/verdicts.md.
struct PowerLimits {
  double second_moment = 0.2;  ///< relative
  double variance = 0.2;       ///< relative
  double token_cosine = 0.2;   ///< absolute
  double log_grad_sq = 0.5;    ///< difference of logarithms
  double score_share = 0.1;    ///< absolute
};

}  // namespace periscope::config
