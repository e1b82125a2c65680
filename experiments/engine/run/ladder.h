#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/judge/width_fit.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/config.h"

namespace periscope::stacks {

/// One number of a stack that is followed along the widths: an entry of a curve, or a curve's mean.
struct LadderQuantity {
  judge::Test test = {};                                     ///< of the limit of infinite width; a mean is a contrast
  std::vector<std::pair<std::size_t, double>> weights = {};  ///< (index, weight): the quantity is Σ weight·curve[index]
  std::vector<judge::Estimate> measured = {};                ///< at every width
  std::vector<double> per_seed = {};                         ///< at the largest width
  judge::WidthFit fit = {};
};

struct LadderStack {
  StackSpec spec;
  std::string unsupported = {};  ///< why nothing was predicted, or what is predicted cannot be measured
  std::vector<LadderQuantity> quantities = {};
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
};

/// Throws ConfigError for widths that cannot be a ladder, for stacks that have no limit, and for a planted fault that
/// changes no compared number.
void require_limit(const LadderConfig& config);

/// T23 for every stack of `config`: measures it at every width, with heads, kv_heads and mlp_width in proportion, fits
/// m_∞ + b/D + c/D² to every quantity (entries of curves, and means over depth) and compares m_∞ with the
/// infinite-width theory, with no tolerated bias for finite width. A lack of fit is inconclusive. Throws as
/// require_limit, and for an override that nothing sees.
LadderResult run_ladder(const LadderConfig& config, Progress& progress);

/// Fits every quantity whose numbers are finite and gives the verdicts; measured are means over `seeds` seeds.
void judge_ladder(LadderResult& result, int seeds, const config::AgreementOptions& options);

bool any_disagrees(const LadderResult& result);

}  // namespace periscope::stacks
