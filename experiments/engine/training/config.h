#pragma once

#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/study/request.h"
#include "sim/train/corpus.h"
#include "sim/train/train_spec.h"

namespace periscope::training {

/// The configuration of `train`: [train] beside the sections of every command.
struct TrainConfig : config::Config {
  TrainSpec train;
};

/// Loads the configuration of `request` with [train]. input.kind becomes "tokens"; run.seeds defaults to one; `corpus`,
/// unless it is "", replaces train.corpus. Throws ConfigError for another input.kind, for a stack that has no
/// unembedding or is not causal, for stacks that could not be trained on the same batches, and as validate does.
[[nodiscard]] TrainConfig train_config(const study::Request& request, const std::string& corpus);

/// Adds [train] to the other settings; only the tokens of the corpus are hashed.
[[nodiscard]] config::Resolved resolved(const TrainConfig& config, const Corpus& corpus, config::Resolved all);

/// The tokens that `config` trains on.
[[nodiscard]] Corpus corpus_of(const TrainConfig& config);

}  // namespace periscope::training
