#pragma once

#include <string>
#include <vector>

#include "experiments/core/dataset/schema.h"
#include "experiments/core/judge/agreement.h"
#include "experiments/core/judge/power_law.h"
#include "experiments/core/stacks/progress.h"

namespace periscope::converge {

/// T20 for one stack and one statistic. The bias at a width is measured minus predicted, mean over depths
/// 1 … 2L, relative for the second moment and absolute for the token cosine.
struct Convergence {
  StackSpec spec;
  Statistic statistic = Statistic::second_moment;
  std::vector<double> width, bias, bias_error;
  std::vector<double> prediction_error;  ///< the part of bias_error that more seeds leave as it is
  judge::PowerLaw bias_fit;              ///< over width: exponent −1
  judge::Verdict bias_verdict = judge::Verdict::not_checked;
  std::string bias_reason;
  std::vector<double> seeds, noise, noise_error;  ///< spread of means of n seeds at the largest width
  judge::PowerLaw noise_fit;                      ///< over n: exponent −1/2
  judge::Verdict noise_verdict = judge::Verdict::not_checked;
  std::string remedy;  ///< of inconclusive verdicts: "about 900 seeds per width would decide"
};

/// The spread of means of n seeds is measured while there are so many groups of n, its standard error being the spread
/// times 1/√(2(groups − 1)).
inline constexpr int fewest_groups = 8;
double spread_error(double spread, int groups);

/// [converge]: the sizes that T20's test runs through.
struct ConvergeConfig : config::Config {
  std::vector<int> widths{32, 64, 128, 256};
  int width_seeds = 64;  ///< at every width

  void add_own_sections(nlohmann::ordered_json& resolved, bool for_hash) const override;
};

extern const Section<ConvergeConfig> section;

struct ConvergeResult {
  std::vector<Convergence> fits;
  double critical = 0.0;       ///< exponents may differ from theirs by this many standard errors (Šidák)
  bool stopped_early = false;  ///< fits are of the stacks that were finished, and not judged
};

/// Throws ConfigError for widths that give no exponent or at which heads would not be whole numbers, and for a planted
/// fault that changes nothing.
void require_widths(const ConvergeConfig& config);

/// Runs every stack of `config` at every width of `config` with head_dim fixed and heads, kv_heads and
/// mlp_width in proportion. Throws as require_widths, and for a told theory
/// that nothing sees.
ConvergeResult run(const ConvergeConfig& config, stacks::Progress& progress);

/// Fits both power laws of every stack and statistic, and says whether the exponents are −1 and −½: rejected where that
/// exponent's χ² exceeds the best one's by more than the square of a normal law's limit at Šidák's level, over two
/// tests a fit; inconclusive where one of the next exponents, 0 and −2 or 0 and −1, would not be rejected either. Not
/// checked: a fit that has a bias_reason already, numbers that are not finite, a statistic that the placement fixes (a
/// spread below 1e-6), and the bias alone where fewer than 5 standard errors of it are seen. Inconclusive verdicts get
/// a remedy from the numbers of `seeds` per width.
void judge_exponents(ConvergeResult& result, int seeds, double familywise_error);

bool any_disagrees(const ConvergeResult& result);
std::string table(const ConvergeResult& result);
const dataset::Schema& schema();
dataset::Dataset dataset_of(const ConvergeConfig& config, const ConvergeResult& result);

}  // namespace periscope::converge
