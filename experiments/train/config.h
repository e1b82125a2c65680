#pragma once

#include "experiments/command/options.h"
#include "experiments/results/provenance.h"
#include "sim/train/corpus.h"
#include "sim/train/train_spec.h"

namespace periscope::train {

/// What `train` runs: [train] beside the sections of every command.
struct TrainConfig : Config {
  TrainSpec train;
};

/// The configuration with the flags on top. Training reads token ids, so input.kind is "tokens"; without run.seeds
/// there is one seed. `corpus`, unless it is empty, stands for train.corpus. Throws ConfigError for an input.kind that
/// was given and is another, for a stack without unembedding or that sees later tokens, whose labels they are, and for
/// all that CommonOptions::load and validate refuse.
[[nodiscard]] TrainConfig load(const CommonOptions& options, const std::string& corpus);

/// What the results depend on: of the corpus its tokens.
[[nodiscard]] Resolved resolved(const TrainConfig& config, const Corpus& corpus);

/// The tokens that `config` trains on.
[[nodiscard]] Corpus corpus_of(const TrainConfig& config);

}  // namespace periscope::train
