#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/result/dataset.h"
#include "experiments/engine/run/token_input.h"
#include "experiments/engine/study/request.h"
#include "sim/checkpoint/checkpoint.h"

namespace periscope::study {

template <class F>
Flag<F> ignore_key_flag() {
  return {"ignore-key", &F::ignore_keys, "Unknown key of config.json that is safe to ignore; repeatable"};
}

/// A checkpoint and its input tokens.
struct CheckpointFlags : stacks::TokenSource {
  std::vector<std::string> ignore_keys;
  std::string checkpoint;
};

/// Returns the flag for a checkpoint's folder. If it is not `required`, a study uses a random stack by default.
template <class F>
Flag<F> checkpoint_flag(bool required = true) {
  Flag<F> flag{"checkpoint", &F::checkpoint, "Folder with config.json and safetensors files"};
  if (!required) flag.meaning += "; default: the random stack of the first seed";
  flag.positional = true;
  flag.required = required;
  return flag;
}

/// Returns the flags shared by all studies of checkpoints, followed by `more`.
template <class F>
std::vector<Flag<F>> checkpoint_flags(const std::vector<Flag<F>>& more, bool required = true) {
  std::vector<Flag<F>> flags{
      checkpoint_flag<F>(required),
      {"tokens", &F::tokens, "Token ids, such as 5,9,2, or a file of token ids"},
      {"text", &F::text, "Text file, to be encoded by the tokenizer"},
      {"tokenizer", &F::tokenizer,
       "Tokenizer file of llama2.c, or \"bytes\"; default: tok*.bin in the folder, or bytes for a vocabulary of 256"},
      {"max-tokens", &F::max_tokens, "Read only the first N tokens", at_least(1)},
      ignore_key_flag<F>()};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

/// Settings of a study of a checkpoint.
struct CheckpointConfig : config::Config, CheckpointFlags {
  std::shared_ptr<const MemoryModel> model = {};  ///< model in memory, used instead of the folder
  bool force = false;                             ///< --force

  [[nodiscard]] std::unique_ptr<Checkpoint> open(Checkpoint::Mixtures mixtures = Checkpoint::Mixtures::rejected) const;
  /// Returns the last component of the folder's path.
  [[nodiscard]] std::string model_name() const;
};

/// A file name and its SHA-256 in hex.
using NamedHash = std::pair<std::string, std::string>;

/// Returns the SHA-256 of every open file with tensors, sorted by name. For tensors in memory, returns a single hash,
/// "tensors", of their names, types, shapes and bytes.
std::vector<NamedHash> hashes_of_files(const TensorFiles& files);

/// Returns the SHA-256 of config.json and of the files with tensors, by name.
nlohmann::ordered_json hashes_of(const Checkpoint& checkpoint);

/// Sets the attributes `checkpoint` and, unless empty, `ignored_keys` of a result.
void set_checkpoint(dataset::Dataset& data, const std::string& name, const std::vector<std::string>& ignored_keys);

/// Throws ConfigError, naming `key`, if the folder for results is the checkpoint's folder.
void require_other_folder(std::string_view key, const std::string& folder, const std::string& checkpoint);

/// Combines flags with `config`. Throws ConfigError as read_flags does, and if run.out is the checkpoint's folder.
template <class C>
C checkpoint_config(const std::vector<Flag<C>>& flags, const Request& request, config::Config config) {
  C own = read_flags(flags, request.flags);
  static_cast<config::Config&>(own) = std::move(config);
  own.model = request.model;
  own.force = request.force;
  require_other_folder("run.out", own.run.out, own.checkpoint);
  return own;
}

/// Throws ConfigError for a given key that has none of the prefixes `allowed`, such as "run.".
void require_keys_of_checkpoint(const config::Config& config, const std::vector<std::string>& allowed);

/// Loads the configuration for a checkpoint, by default in f64. Throws ConfigError for keys set by the checkpoint.
config::Config load_for_checkpoint(const Request& request);

}  // namespace periscope::study
