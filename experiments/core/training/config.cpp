#include "experiments/core/training/config.h"

#include <fmt/format.h>

#include <filesystem>

#include "experiments/core/config/sha256.h"
#include "sim/base/error.h"

namespace periscope::training {
namespace {

/// A relative path in a configuration file is relative to that file.
void resolve_corpus(TrainConfig& config, const std::string& file, const std::vector<std::string>& settings) {
  const toml::table table = config::read_table(file, settings);
  const toml::node* section = table.get("train");
  const toml::node* corpus = section != nullptr && section->is_table() ? section->as_table()->get("corpus") : nullptr;
  const bool in_file = corpus != nullptr && corpus->source().path;
  if (!in_file || config.train.corpus == synthetic_corpus) return;
  const std::filesystem::path path(config.train.corpus);
  if (path.is_relative()) {
    config.train.corpus = (std::filesystem::path(file).parent_path() / path).lexically_normal().string();
  }
}

}  // namespace

TrainConfig train_config(config::Config loaded, const std::string& file, const std::vector<std::string>& settings,
                         bool seeds_by_flag, const std::string& corpus) {
  TrainConfig config;
  static_cast<config::Config&>(config) = std::move(loaded);
  config::load_section(train_section, file, settings, config.train);
  if (corpus.empty()) {
    resolve_corpus(config, file, settings);
  } else {
    config.train.corpus = corpus;
  }
  validate(config.train);
  if (config.was_given("input.kind") && config.inputs != std::vector{InputKind::tokens}) {
    std::string found;
    for (const InputKind kind : config.inputs) {
      found += (found.empty() ? "" : ", ") + std::string(input_kind_names[static_cast<std::size_t>(kind)]);
    }
    throw ConfigError(fmt::format("input.kind = {}: expected tokens, which training reads from train.corpus", found));
  }
  if (!config.base.model.unembedding) {
    throw ConfigError("model.unembedding = false: expected true, as training predicts tokens");
  }
  if (!config.base.model.causal) {
    throw ConfigError("model.causal = false: expected true, as training predicts the next token, which would be seen");
  }
  config.inputs = {InputKind::tokens};
  config.base.input.kind = InputKind::tokens;
  if (!config.was_given("run.seeds") && !seeds_by_flag) config.run.seeds = 1;
  for (const StackSpec& spec : config.stacks()) periscope::validate(spec);
  return config;
}

config::Resolved resolved(const TrainConfig& config, const Corpus& corpus) {
  config::Resolved all = config::resolved(static_cast<const config::Config&>(config));
  all.printed["train"] = config::section_json(train_section, config.train);
  all.hashed["train"] = all.printed["train"];
  const std::span<const std::uint8_t> tokens = corpus.tokens();
  all.hashed["train"]["corpus"] = config::sha256_hex({reinterpret_cast<const char*>(tokens.data()), tokens.size()});
  return all;
}

Corpus corpus_of(const TrainConfig& config) {
  return {config.train.corpus, config.train.validation, config.base.input.tokens + 1, config.base.model.vocab};
}

}  // namespace periscope::training
