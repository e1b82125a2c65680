#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/checkpoint/checkpoint_writer.h"

namespace periscope {
namespace {

/// Collects what a family makes of a stack and refuses the first difference.
class Comparison {
 public:
  explicit Comparison(const Family& family) : family_(family) {}

  template <class Value>
  void same(std::string_view key, const Value& wanted, const Value& made) const {
    if (wanted != made) refuse(key, fmt::format("{}", wanted), fmt::format("{}", made));
  }
  template <class Value, std::size_t size>
  void same_name(std::string_view key, Value wanted, Value made,
                 const std::array<std::string_view, size>& names) const {
    same(key, names[static_cast<std::size_t>(wanted)], names[static_cast<std::size_t>(made)]);
  }
  /// A value that the family sets where the plain stack has `plain`.
  template <class Value>
  void same_or_added(std::string_view key, const Value& wanted, const Value& plain, const Value& made) const {
    if (wanted != plain) same(key, wanted, made);
  }

 private:
  [[noreturn]] void refuse(std::string_view key, const std::string& wanted, const std::string& made) const {
    throw ConfigError(fmt::format("{} = {}: the family {} has {}", key, wanted, family_.name, made));
  }

  const Family& family_;
};

/// "A B, alpha 1, beta 1, input gain 1".
std::string text_of(const SublayerRule& r) {
  return fmt::format("{}{}{}alpha {:g} beta {:g} input gain {:g}", r.norm_a ? "A " : "", r.norm_b ? "B " : "",
                     r.norm_c ? "C " : "", r.alpha, r.beta, r.input_gain);
}

void compare_norms(const Comparison& c, const ModelSpec& wanted, const ModelSpec& made) {
  for (int l = 0; l < wanted.sublayers(); ++l)
    c.same("model.placement", text_of(wanted.rule(l)), text_of(made.rule(l)));
  c.same("model.placement", wanted.placement.wiring == Wiring::sequential, made.placement.wiring == Wiring::sequential);
  c.same_name("model.norm", wanted.norm, made.norm, norm_kind_names);
  c.same("model.norm_eps", wanted.norm_eps, made.norm_eps);
  if (facts_of(wanted.norm).has_alpha()) c.same("model.norm_alpha", wanted.norm_alpha, made.norm_alpha);
  c.same("model.embedding_norm", wanted.embedding_norm, made.embedding_norm);
  c.same("model.final_norm", wanted.final_norm, made.final_norm);
  for (int layer = 0; layer < wanted.layers; ++layer) {
    c.same_name("model.qk_norm", wanted.qk_norm_at(layer), made.qk_norm_at(layer), qk_norm_names);
    c.same("model.v_norm", wanted.v_norm_at(layer), made.v_norm_at(layer));
    c.same_name("model.attention_gate", wanted.attention_gate_at(layer), made.attention_gate_at(layer),
                attention_gate_names);
    c.same_name("model.inner_norm", wanted.inner_norm_of(layer), made.inner_norm_of(layer), inner_norm_names);
  }
}

void compare_sizes(const Comparison& c, const ModelSpec& wanted, const ModelSpec& made) {
  c.same("model.layers", wanted.layers, made.layers);
  c.same("model.width", wanted.width, made.width);
  c.same("model.heads", wanted.heads, made.heads);
  c.same("model.kv_heads", wanted.kv_heads, made.kv_heads);
  c.same("model.head_dim", wanted.head_dim, made.head_dim);
  c.same("model.mlp_width", wanted.mlp_width, made.mlp_width);
  c.same("model.vocab", wanted.vocab, made.vocab);
  c.same_name("model.mlp", wanted.mlp, made.mlp, mlp_kind_names);
}

void compare_attention(const Comparison& c, const ModelSpec& wanted, const ModelSpec& made) {
  c.same("model.rope", wanted.rope, made.rope);
  c.same("model.causal", wanted.causal, made.causal);
  for (int layer = 0; layer < wanted.layers; ++layer) {
    const ScoreRule a = wanted.scores_at(layer);
    const ScoreRule b = made.scores_at(layer);
    c.same("the scale of scores", a.scale, b.scale);
    c.same("the soft cap of scores", a.soft_cap, b.soft_cap);
    c.same("the attention window", a.window, b.window);
    c.same("RoPE with frequencies of its own", wanted.rope_frequencies_at(layer) != made.rope_frequencies_at(layer),
           false);
  }
}

void compare_ends(const Comparison& c, const ModelSpec& wanted, const ModelSpec& made) {
  const EmbeddingSpec plain;
  const EmbeddingSpec& a = wanted.embedding;
  const EmbeddingSpec& b = made.embedding;
  c.same("the embedding's width", wanted.embedding_width(), made.embedding_width());
  c.same_or_added("the embedding's scale", a.scale, plain.scale, b.scale);
  c.same_or_added("learned positions", a.positions, plain.positions, b.positions);
  c.same_or_added("the first position's row", a.position_offset, plain.position_offset, b.position_offset);
  c.same_or_added("token types", a.token_types, plain.token_types, b.token_types);
  c.same("model.unembedding", wanted.unembedding, made.unembedding);
  c.same_or_added("the head's transform", wanted.head.transform, false, made.head.transform);
  c.same("the soft cap of logits", wanted.head.soft_cap, made.head.soft_cap);
}

}  // namespace

CheckpointLayout layout_for(const Family& family, const ModelSpec& wanted) {
  validate(token_stack(wanted));
  const nlohmann::json config = nlohmann::json::parse(family.write(wanted).dump());
  ConfigReader reader(config, "written config.json");
  FamilyStack made;
  try {
    made = family.read(reader, written_names(family, wanted.unembedding));
    reader.finish();
  } catch (const InputError& error) {
    throw ConfigError(fmt::format("the family {} cannot express the model: {}", family.name, error.what()));
  }
  made.model.gamma = wanted.gamma;
  const Comparison comparison(family);
  compare_sizes(comparison, wanted, made.model);
  compare_norms(comparison, wanted, made.model);
  compare_attention(comparison, wanted, made.model);
  compare_ends(comparison, wanted, made.model);
  return {config, made.model, made.map};
}

CheckpointLayout layout_of(const Checkpoint& checkpoint) {
  return {checkpoint.config(), checkpoint.model(), checkpoint.map()};
}

}  // namespace periscope
