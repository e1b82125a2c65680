#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/judge/width_fit.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/config.h"

namespace periscope::stacks {

/// One number of a stack that is followed along the widths: an entry of a curve, or a curve's mean.
struct LadderQuantity {
  judge::Test test = {};                       ///< of the limit of infinite width; a mean is a contrast
  std::vector<judge::Estimate> measured = {};  ///< at every width
  std::vector<double> per_seed = {};           ///< of LadderStack::stream_means: every seed at the largest width
  judge::WidthFit fit = {};
};

struct LadderStack {
  StackSpec spec;
  std::string refusal;  ///< why nothing was predicted, or what is predicted cannot be measured
  std::vector<LadderQuantity> quantities;
  /// Second moment and token cosine of the stream, mean over depths 1 … 2L (T20). Not judged here.
  std::vector<LadderQuantity> stream_means = {};
  judge::Verdict verdict = judge::Verdict::not_checked;
};

/// [ladder]: the widths that T23's fit runs through.
struct LadderConfig : config::Config {
  std::vector<int> widths{32, 64, 128, 256};
  int width_seeds = 64;  ///< at every width
};

extern const Section<LadderConfig> ladder_section;

struct LadderResult {
  std::vector<LadderStack> stacks;
  std::vector<int> widths;
  std::size_t tests = 0;
  bool stopped_early = false;  ///< stacks are those that were finished, and not judged
};

/// Throws ConfigError for fewer than four widths, for widths that do not grow or at which heads would not be whole
/// numbers, where theory would need too large ones, where there is no limit (an initialisation of fixed standard
/// deviation, or as many classes as features), for token input, and for a planted fault that changes nothing.
void require_limit(const LadderConfig& config);

/// T23 for every stack of `config`: measures it at every width of `config`, with heads, kv_heads and mlp_width in
/// proportion, fits m_∞ + b/D + c/D² to every quantity (second moments and token cosines of the stream and of the
/// modules' outputs, with run.backward log_grad_sq of the stream and, over its fan-in, of every matrix, and
/// score_share; entries, and means over depth) and compares m_∞ with the infinite-width theory, with no tolerated bias
/// for finite width. Rejected: Student's t at Šidák's level over all quantities of all stacks. Inconclusive: a lack of
/// fit, or an error that could not have been rejected above the statistic's limit. Throws as require_limit, and for an
/// override that nothing sees.
LadderResult run_ladder(const LadderConfig& config, Progress& progress);

/// Fits every quantity whose numbers are finite, of stacks that were not refused, and gives the verdicts; measured are
/// means over `seeds` seeds.
void judge_ladder(LadderResult& result, int seeds, const config::AgreementOptions& options);

bool any_disagrees(const LadderResult& result);

}  // namespace periscope::stacks
