#include "experiments/engine/training/config.h"

#include <fmt/format.h>

#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::training {
namespace {

/// Throws ConfigError unless all stacks can be trained on the same batches.
void require_one_corpus(const TrainConfig& config) {
  const auto same = [](std::string_view key, auto first, auto other) {
    if (first == other) return;
    throw ConfigError(
        fmt::format("{}: expected one value, as all stacks are trained on the same batches; found {} and "
                    "{}",
                    key, first, other));
  };
  for (const StackSpec& spec : config.variants) {
    same("input.tokens", config.base.input.tokens, spec.input.tokens);
    same("model.vocab", config.base.model.vocab, spec.model.vocab);
    same("model.unembedding", config.base.model.unembedding, spec.model.unembedding);
    same("model.causal", config.base.model.causal, spec.model.causal);
  }
}

/// Throws ConfigError for an input.kind other than "tokens". Call this before loading the configuration, as other input
/// kinds need keys that training does not use.
void require_token_input(const config::Tree& tree) {
  const config::Json* kind = tree.find("input.kind");
  if (kind != nullptr && kind->is_array() && kind->size() == 1) kind = &kind->front();
  if (kind == nullptr || *kind == "tokens") return;
  if (!kind->is_string() && !kind->is_array()) return;  // load_config rejects it
  throw ConfigError(
      fmt::format("input.kind = {}: expected tokens, as training reads the text of train.corpus or --corpus",
                  shortened(config::toml_text(*kind))));
}

}  // namespace

TrainConfig train_config(const study::Request& request, const std::string& corpus) {
  require_token_input(config::read_tree(request.file, request.all_settings()));
  TrainConfig config;
  static_cast<config::Config&>(config) = request.load();
  config::read_section(config::TomlReader(config.tree), train_section, config.train);
  if (!corpus.empty()) {
    config.train.corpus = corpus;
  } else if (config.train.corpus != synthetic_corpus) {
    config::TomlReader(config.tree).table("train").resolve_path("corpus", config.train.corpus);
  }
  validate(config.train);
  require_one_corpus(config);
  if (!config.base.model.unembedding) {
    throw ConfigError("model.unembedding = false: expected true, as training predicts tokens");
  }
  if (!config.base.model.causal) {
    throw ConfigError(
        "model.causal = false: expected true, as otherwise a token could attend to the token it predicts");
  }
  config.inputs = {InputKind::tokens};
  config.base.input.kind = InputKind::tokens;
  if (!config.is_set("run.seeds") && !request.run.contains("seeds")) config.run.seeds = 1;
  for (const StackSpec& spec : config.stacks()) periscope::validate(spec);
  return config;
}

config::Resolved resolved(const TrainConfig& config, const Corpus& corpus, config::Resolved all) {
  all.add(train_section, config.train);
  const std::span<const std::uint8_t> tokens = corpus.tokens();
  all.hashed["train"]["corpus"] = config::sha256_hex({reinterpret_cast<const char*>(tokens.data()), tokens.size()});
  return all;
}

Corpus corpus_of(const TrainConfig& config) {
  return {config.train.corpus, config.train.validation, config.base.input.tokens + 1, config.base.model.vocab};
}

}  // namespace periscope::training
