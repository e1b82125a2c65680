#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/result/dataset.h"
#include "experiments/engine/run/token_input.h"
#include "experiments/engine/study/request.h"

namespace periscope::study {

/// Values of --ignore-key.
struct IgnoredKeys {
  std::vector<std::string> ignore_keys;
};

template <class F>
study::Flag<F> ignore_key_flag() {
  return {"ignore-key", &F::ignore_keys,
          "Key of config.json that does not change the function although it is unknown; repeatable"};
}

/// A checkpoint and the tokens that it reads.
struct CheckpointFlags : IgnoredKeys, stacks::TokenSource {
  std::string checkpoint;
};

template <class F>
std::vector<study::Flag<F>> checkpoint_flags() {
  return {{.name = "checkpoint",
           .field = &F::checkpoint,
           .meaning = "Folder with config.json and safetensors files",
           .positional = true,
           .required = true},
          {"tokens", &F::tokens, "Token ids: 5,9,2, or a file of them"},
          {"text", &F::text, "Text file, encoded by the tokenizer"},
          {"tokenizer", &F::tokenizer,
           "A tokenizer file of llama2.c, or \"bytes\"; default: tok*.bin in the folder, or bytes for a vocabulary of "
           "256"},
          {"max-tokens", &F::max_tokens, "Read only the first so many tokens", at_least(1)},
          ignore_key_flag<F>()};
}

/// Sets the attributes `checkpoint` and, if there are any, `ignored_keys` of a result.
void set_checkpoint(dataset::Dataset& data, const std::string& name, const std::vector<std::string>& ignored_keys);

/// Throws ConfigError, which names `key`, if `folder`, which results go into, is the checkpoint's own.
void require_other_folder(std::string_view key, const std::string& folder, const std::string& checkpoint);

/// The configuration for a checkpoint's model: computed in f64 unless a dtype was asked for. Refuses keys that the
/// checkpoint answers.
config::Config load_for_checkpoint(const study::Request& request);

}  // namespace periscope::study
