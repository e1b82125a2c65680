#pragma once

#include <string>
#include <vector>

#include "experiments/engine/judge/claims.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/training/train.h"
#include "experiments/studies/reproduce/readings.h"

namespace periscope::reproduce {

/// The configuration of `reproduce`.
struct ReproduceConfig : training::TrainConfig {
  std::vector<std::string> figures;  ///< names of exhibits; empty: all
  bool quick = false;                ///< fewer and shorter runs
  std::vector<Group> groups;         ///< of these exhibits
};

struct ReproduceResult {
  std::vector<GroupRuns> groups;
  std::vector<judge::SignClaim> claims;
  std::optional<double> loss_floor;
};

/// Tests every claim whose groups are among `runs`; the others are `not_run`. A claim holds where p ≤ 0.05 and fails
/// where the opposite has p ≤ 0.05; else it is not shown. That is for each alone: `holm` is for all together. A loss
/// that is not finite counts as ln V, that of a guess.
[[nodiscard]] std::vector<judge::SignClaim> judge_claims(const std::vector<GroupRuns>& runs);

/// The regime that all groups share, unless their names say otherwise.
[[nodiscard]] std::vector<std::string> regime_of(const ReproduceConfig& config);

/// Trains every group with every seed; finished runs are saved in `states`, where other commands that need them
/// find them.
[[nodiscard]] ReproduceResult run(const ReproduceConfig& config, const Corpus& corpus, training::SavedStates states,
                                  stacks::Progress& progress);

/// Returns the memory estimate of all runs.
[[nodiscard]] stacks::MemoryEstimate reproduce_memory(const ReproduceConfig& config, int threads);

[[nodiscard]] std::string table(const ReproduceConfig& config, const ReproduceResult& result);
[[nodiscard]] const dataset::Schema& schema();
[[nodiscard]] dataset::Dataset dataset_of(const ReproduceConfig& config, const ReproduceResult& result);

}  // namespace periscope::reproduce
