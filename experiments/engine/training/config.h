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

/// Loads the configuration of `request` with [train]. input.kind becomes "tokens"; without run.seeds or --seeds there
/// is one seed. `corpus`, unless it is empty, stands for train.corpus. Throws ConfigError for another input.kind, for a
/// stack without unembedding or that sees later tokens, whose labels they are, for stacks that could not be trained on
/// the same batches, and for all that validate refuses.
[[nodiscard]] TrainConfig train_config(const study::Request& request, const std::string& corpus);

/// Adds [train] to `all`, the other settings that the results depend on; of the corpus only its tokens count.
[[nodiscard]] config::Resolved resolved(const TrainConfig& config, const Corpus& corpus, config::Resolved all);

/// The tokens that `config` trains on.
[[nodiscard]] Corpus corpus_of(const TrainConfig& config);

}  // namespace periscope::training
