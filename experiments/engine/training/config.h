#pragma once

#include "experiments/engine/settings/resolved.h"
#include "sim/train/corpus.h"
#include "sim/train/train_spec.h"

namespace periscope::training {

/// The configuration of `train`: [train] beside the sections of every command.
struct TrainConfig : config::Config {
  TrainSpec train;
};

/// Throws ConfigError for an input.kind in `file` or `settings` that is not "tokens": training reads token ids. To be
/// asked before the configuration is loaded, which expects of other kinds what training has no use for.
void require_token_input(const std::string& file, const std::vector<std::string>& settings);

/// A loaded configuration, of `file` and `settings`, with [train]. input.kind becomes "tokens"; without run.seeds
/// there is one seed, unless a flag gave them. `corpus`, unless it is empty, stands for train.corpus. Throws
/// ConfigError for a stack without unembedding or that sees later tokens, whose labels they are, for stacks that could
/// not be trained on the same batches, and for all that validate refuses.
[[nodiscard]] TrainConfig train_config(config::Config loaded, const std::string& file,
                                       const std::vector<std::string>& settings, bool seeds_by_flag,
                                       const std::string& corpus);

/// Returns the settings that the results depend on; of the corpus only its tokens count.
[[nodiscard]] config::Resolved resolved(const TrainConfig& config, const Corpus& corpus);

/// The tokens that `config` trains on.
[[nodiscard]] Corpus corpus_of(const TrainConfig& config);

}  // namespace periscope::training
