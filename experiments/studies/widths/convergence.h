#pragma once

#include <string>
#include <vector>

#include "experiments/engine/judge/power_law.h"
#include "experiments/engine/result/table.h"
#include "experiments/engine/run/ladder.h"

namespace periscope::ladder {

/// T20 for one stack and one statistic of its stream. The bias at a width is measured minus predicted at infinite
/// width, mean over depths 1 … 2L, relative for the second moment and absolute for the token cosine.
struct Convergence {
  StackSpec spec;
  Statistic statistic = Statistic::second_moment;
  std::vector<double> width, bias, bias_error;
  std::vector<double> prediction_error;  ///< the part of bias_error that more seeds leave as it is
  judge::PowerLaw bias_fit;              ///< over width: exponent −1
  judge::Verdict bias_verdict = judge::Verdict::not_checked;
  std::string bias_reason;
  std::vector<double> seeds, noise, noise_error;  ///< spread of means of n seeds at the largest width
  bool noise_is_judged = false;
  judge::PowerLaw noise_fit;  ///< over n: exponent −1/2
  judge::Verdict noise_verdict = judge::Verdict::not_checked;
  std::string remedy;  ///< of inconclusive verdicts: "about 900 seeds per width would decide"
};

/// The spread of means of n seeds is measured while there are so many groups of n, its standard error being the spread
/// times 1/√(2(groups − 1)).
inline constexpr int fewest_groups = 8;
double spread_error(double spread, int groups);

struct ConvergenceResult {
  std::vector<Convergence> fits;
  double critical = 0.0;  ///< exponents may differ from theirs by this many standard errors (Šidák)
};

/// Bias and noise of the second moment and the token cosine of every stack's stream, read from a ladder's means over
/// depth, with the verdicts of judge_exponents.
ConvergenceResult convergence_of(const stacks::LadderResult& ladder, double familywise_error);

/// Fits both power laws of every stack and statistic, and says whether the exponents are −1 and −½: rejected where that
/// exponent's χ² exceeds the best one's by more than the square of Student's t with seeds − 1 degrees of freedom at
/// Šidák's level over the exponents that are judged; inconclusive where one of the next exponents, 0 and −2 or 0 and
/// −1, would not be rejected either. Not checked: a fit that has a bias_reason already, numbers that are not finite, a
/// statistic that the placement fixes (a spread below 1e-6), and the bias alone where fewer than 5 standard errors of
/// it are seen. Inconclusive verdicts get a remedy from the numbers of `seeds` per width.
void judge_exponents(ConvergenceResult& result, int seeds, double familywise_error);

bool any_disagrees(const ConvergenceResult& result);
std::string table(const ConvergenceResult& result);

/// The columns on the dimensions convergence, ladder_width and group, and a row for every fit.
const dataset::Table<Convergence>& convergence_table();
void put_convergence(const ConvergenceResult& result, dataset::Builder& builder);

}  // namespace periscope::ladder
