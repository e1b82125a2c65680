#pragma once

#include <string>
#include <vector>

#include "experiments/engine/judge/width_fit.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/ladder.h"

namespace periscope::ladder {

/// A power law fitted to values of the ladder, and the test of its exponent.
struct FittedLaw {
  std::vector<double> over, value, error;  ///< width or number of seeds; fitted value; its standard error
  judge::PowerLaw fit = {};
  judge::Test test = {};  ///< has no seeds if nothing was fitted; `reason` says why

  [[nodiscard]] bool is_fitted() const { return test.seeds > 0; }
};

/// Convergence (T20) of one statistic of a stack's stream.
struct Convergence {
  StackSpec spec;
  Statistic statistic = Statistic::second_moment;
  /// Measured minus predicted (infinite width) by width; expected exponent −1. Mean over depths 1 … 2L,
  /// relative for the second moment and absolute for the token cosine.
  FittedLaw bias;
  double from_theory = 0.0;  ///< mean share of the prediction in the squared standard errors of the bias
  FittedLaw noise;           ///< spread of means over n seeds at the largest width, against n; expected exponent −1/2
};

/// Returns bias and noise of the stream's second moment and token cosine for every stack, judged by judge_exponents.
std::vector<Convergence> convergence_of(const stacks::LadderResult& ladder, double familywise_error);

/// Fits both laws of every stack and statistic, and judges their exponents together. To agree, a test must be able to
/// detect the neighbouring exponents: 0 and −2 for a bias, 0 and −1 for noise. Not checked: a bias with test.reason,
/// values that are not finite, a statistic fixed by the placement (a spread below 1e-6), and a bias below 5σ.
void judge_exponents(std::vector<Convergence>& fits, int seeds, double familywise_error);

bool any_disagrees(const std::vector<Convergence>& fits);

std::string table(const stacks::LadderResult& result, const config::Config& config);
std::string table(const std::vector<Convergence>& fits);
const dataset::Schema& schema();
dataset::Dataset dataset_of(const stacks::LadderConfig& config, const stacks::LadderResult& result,
                            const std::vector<Convergence>& fits);

}  // namespace periscope::ladder
