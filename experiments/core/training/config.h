#pragma once

#include "experiments/core/config/resolved.h"
#include "sim/train/corpus.h"
#include "sim/train/train_spec.h"

namespace periscope::training {

/// What `train` runs: [train] beside the sections of every command.
struct TrainConfig : config::Config {
  TrainSpec train;
};

/// A loaded configuration, of `file` and `settings`, with [train]. Training reads token ids, so input.kind is "tokens";
/// without run.seeds there is one seed, unless a flag gave them. `corpus`, unless it is empty, stands for train.corpus.
/// Throws ConfigError for an input.kind that was given and is another, for a stack without unembedding or that sees
/// later tokens, whose labels they are, and for all that validate refuses.
[[nodiscard]] TrainConfig train_config(config::Config loaded, const std::string& file,
                                       const std::vector<std::string>& settings, bool seeds_by_flag,
                                       const std::string& corpus);

/// What the results depend on: of the corpus its tokens.
[[nodiscard]] config::Resolved resolved(const TrainConfig& config, const Corpus& corpus);

/// The tokens that `config` trains on.
[[nodiscard]] Corpus corpus_of(const TrainConfig& config);

}  // namespace periscope::training
