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

/// A number measured at all widths: an entry of a curve, or a mean over entries.
struct LadderQuantity {
  judge::Test test = {};                                     ///< test of the infinite-width limit
  std::vector<std::pair<std::size_t, double>> weights = {};  ///< (index, weight): the quantity is Σ weight·curve[index]
  std::vector<judge::Estimate> measured = {};                ///< mean over seeds at every width
  std::vector<double> per_seed = {};                         ///< values at the largest width
  judge::WidthFit fit = {};
};

struct LadderStack {
  StackSpec spec;
  std::string unsupported = {};  ///< why the stack is not predicted or its prediction is out of range, or ""
  std::vector<LadderQuantity> quantities = {};
  /// Second moment and token cosine of the stream, mean over depths 1 … 2L (T20). Not judged.
  std::vector<LadderQuantity> stream_means = {};
  judge::Verdict verdict = judge::Verdict::not_checked;
};

/// Configuration with the section [ladder]: the widths of the fit (T23).
struct LadderConfig : config::Config {
  std::vector<int> widths{32, 64, 128, 256};
  int width_seeds = 64;  ///< number of seeds per width
};

extern const Section<LadderConfig> ladder_section;

struct LadderResult {
  std::vector<LadderStack> stacks;
  std::vector<int> widths;
  std::size_t tests = 0;
};

/// Throws ConfigError for invalid widths, stacks without an infinite-width limit, and planted faults without effect.
void require_limit(const LadderConfig& config);

/// Tests the infinite-width limit (T23) for every stack of `config`. Measures every stack at all widths, with heads,
/// kv_heads and mlp_width in proportion, and fits m_∞ + b/D + c/D² to every quantity. Compares m_∞ with the theory,
/// without a tolerated bias for finite width. A lack of fit makes the verdict inconclusive. Throws
/// ConfigError as require_limit does, and for an override without effect.
LadderResult run_ladder(const LadderConfig& config, Progress& progress);

/// Fits all quantities with finite values, which are means over `seeds` seeds, and sets the verdicts.
void judge_ladder(LadderResult& result, int seeds, const config::AgreementOptions& options);

bool any_disagrees(const LadderResult& result);

}  // namespace periscope::stacks
