#include "experiments/engine/training/config.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"

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

std::string kind_text(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return shortened(text.str());
}

/// All stacks read the same windows of tokens, and predict the same next tokens.
void require_one_corpus(const TrainConfig& config) {
  const auto same = [](std::string_view key, auto first, auto other) {
    if (first == other) return;
    throw ConfigError(fmt::format("{}: {} and {}: expected one value, as all stacks are trained on the same batches",
                                  key, first, other));
  };
  for (const StackSpec& spec : config.variants) {
    same("input.tokens", config.base.input.tokens, spec.input.tokens);
    same("model.vocab", config.base.model.vocab, spec.model.vocab);
    same("model.unembedding", config.base.model.unembedding, spec.model.unembedding);
    same("model.causal", config.base.model.causal, spec.model.causal);
  }
}

}  // namespace

void require_token_input(const std::string& file, const std::vector<std::string>& settings) {
  const toml::table table = config::read_table(file, settings);
  const toml::node* kind = table.at_path("input.kind").node();
  if (kind != nullptr && kind->is_array() && kind->as_array()->size() == 1) kind = kind->as_array()->get(0);
  if (kind == nullptr || kind->value<std::string>() == "tokens") return;
  if (!kind->is_string() && !kind->is_array()) return;  // no kind at all, which the configuration's reader says
  throw ConfigError(
      fmt::format("input.kind = {}: expected tokens, as training reads the text that train.corpus or --corpus names",
                  kind_text(*kind)));
}

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
  require_one_corpus(config);
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
