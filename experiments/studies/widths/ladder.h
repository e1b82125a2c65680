#pragma once

#include <string>
#include <vector>

#include "experiments/engine/judge/width_fit.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/ladder.h"

namespace periscope::ladder {

/// A power law fitted to numbers of the ladder, and the test of its exponent.
struct FittedLaw {
  std::vector<double> over, value, error;
  judge::PowerLaw fit = {};
  judge::Test test = {};  ///< without seeds if there is nothing to fit, for its `reason`

  [[nodiscard]] bool is_fitted() const { return test.seeds > 0; }
};

/// T20 for one stack and one statistic of its stream.
struct Convergence {
  StackSpec spec;
  Statistic statistic = Statistic::second_moment;
  /// Measured minus predicted at infinite width over the width: exponent −1. The mean over depths 1 … 2L, relative for
  /// the second moment and absolute for the token cosine.
  FittedLaw bias;
  double from_theory = 0.0;  ///< mean share of the prediction in the squared errors of the bias
  FittedLaw noise;           ///< spread of means of n seeds at the largest width over n: exponent −1/2
};

/// Bias and noise of the second moment and the token cosine of every stack's stream, from a ladder's means over depth,
/// judged by judge_exponents.
std::vector<Convergence> convergence_of(const stacks::LadderResult& ladder, double familywise_error);

/// Fits both laws of every stack and statistic, and judges their exponents together. An agreement must be able to
/// detect the next exponents: 0 and −2 of a bias, 0 and −1 of noise. Not checked: a bias whose test has a reason
/// already, numbers that are not finite, a statistic that the placement fixes (a spread below 1e-6), and a bias of
/// less than 5 standard errors.
void judge_exponents(std::vector<Convergence>& fits, int seeds, double familywise_error);

bool any_disagrees(const std::vector<Convergence>& fits);

std::string table(const stacks::LadderResult& result, const config::Config& config);
std::string table(const std::vector<Convergence>& fits);
const dataset::Schema& schema();
dataset::Dataset dataset_of(const stacks::LadderConfig& config, const stacks::LadderResult& result,
                            const std::vector<Convergence>& fits);

}  // namespace periscope::ladder
