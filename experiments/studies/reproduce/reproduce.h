#pragma once

#include <string>
#include <vector>

#include "experiments/engine/judge/claims.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/shard.h"
#include "experiments/engine/training/train.h"
#include "experiments/studies/reproduce/metrics.h"

namespace periscope::reproduce {

struct ReproduceConfig : training::TrainConfig {
  std::vector<std::string> figures;  ///< names of exhibits; empty: all
  bool quick = false;                ///< fewer and shorter runs
  std::vector<Group> groups;         ///< groups of these exhibits
};

struct ReproduceResult {
  std::vector<GroupRuns> groups;
  std::vector<judge::SignClaim> claims;
  std::optional<double> loss_floor;
};

/// Tests every claim whose groups are among `runs`; the others are `not_run`. A claim holds if p ≤ 0.05, fails if its
/// opposite has p ≤ 0.05, and is not shown otherwise. `p` is for each claim alone, `holm` for all claims together. A
/// loss that is not finite counts as ln V, the loss of a uniform guess.
[[nodiscard]] std::vector<judge::SignClaim> judge_claims(const std::vector<GroupRuns>& runs);

/// Returns the statement of the claim with this id, such as "F4a"; "" for an unknown id.
[[nodiscard]] std::string statement_of(std::string_view id);

/// Returns the shared settings of the groups. The names of groups state how they differ.
[[nodiscard]] std::vector<std::string> regime_of(const ReproduceConfig& config);

/// Trains every group with every seed. Saves finished runs in `states`, so that other commands reuse them.
[[nodiscard]] ReproduceResult run(const ReproduceConfig& config, const Corpus& corpus, training::SavedStates states,
                                  stacks::Progress& progress);

/// Returns the shard's runs of all groups, each with all seeds.
[[nodiscard]] std::vector<training::TrainingTask> tasks_of(const ReproduceConfig& config,
                                                           const stacks::Shard& shard = {});

/// Trains the runs of one shard, without judging claims. `run` with the same states then restores them.
void train_shard(const ReproduceConfig& config, const Corpus& corpus, training::SavedStates states,
                 const stacks::Shard& shard, stacks::Progress& progress);

/// Returns the memory estimate of this number of runs.
[[nodiscard]] stacks::MemoryEstimate reproduce_memory(const ReproduceConfig& config, std::size_t runs, int threads);

[[nodiscard]] std::string table(const ReproduceConfig& config, const ReproduceResult& result);
[[nodiscard]] const dataset::Schema& schema();
[[nodiscard]] dataset::Dataset dataset_of(const ReproduceConfig& config, const ReproduceResult& result);

}  // namespace periscope::reproduce
