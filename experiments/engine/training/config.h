#pragma once

#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/study/request.h"
#include "sim/train/corpus.h"
#include "sim/train/train_spec.h"

namespace periscope::training {

/// Configuration of `train`: the common sections and [train].
struct TrainConfig : config::Config {
  TrainSpec train;
};

/// Loads the configuration of `request` with [train]. input.kind becomes "tokens"; run.seeds defaults to 1; `corpus`
/// replaces train.corpus unless it is "". Throws ConfigError for a different input.kind, for a stack without
/// unembedding or causal mask, for stacks that cannot be trained on the same batches, and as validate does.
[[nodiscard]] TrainConfig train_config(const study::Request& request, const std::string& corpus);

/// Adds [train] to the settings. The hash includes the tokens of the corpus instead of its path.
[[nodiscard]] config::Resolved resolved(const TrainConfig& config, const Corpus& corpus, config::Resolved all);

[[nodiscard]] Corpus corpus_of(const TrainConfig& config);

}  // namespace periscope::training
