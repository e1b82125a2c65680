#include <fmt/format.h>

#include <algorithm>

#include "sim/checkpoint/checkpoint_writer.h"

namespace periscope {
namespace {

/// Formats a rule such as "norms A B, alpha = 1, beta = 1, input gain = 1".
std::string text_of(const SublayerRule& r) {
  return fmt::format("norms{}{}{}, alpha = {:g}, beta = {:g}, input gain = {:g}", r.norm_a ? " A" : "",
                     r.norm_b ? " B" : "", r.norm_c ? " C" : "", r.alpha, r.beta, r.input_gain);
}

/// Returns {key, value} pairs in which two stacks must agree. The sizes come first and determine the list's length.
std::vector<std::pair<std::string_view, std::string>> properties_of(const ModelSpec& m) {
  std::vector<std::pair<std::string_view, std::string>> all;
  const auto add = [&](std::string_view key, const auto& value) { all.emplace_back(key, fmt::to_string(value)); };
  const auto add_name = [&](std::string_view key, auto value, const auto& names) {
    add(key, names[static_cast<std::size_t>(value)]);
  };
  add("model.layers", m.layers);
  add("model.width", m.width);
  add("model.heads", m.heads);
  add("model.kv_heads", m.kv_heads);
  add("model.head_dim", m.head_dim);
  add("model.mlp_width", m.mlp_width);
  add("model.vocab", m.vocab);
  add_name("model.mlp", m.mlp, mlp_kind_names);

  for (int l = 0; l < m.sublayers(); ++l) add("model.placement", text_of(m.rule(l)));
  add("model.placement", m.placement.wiring == Wiring::sequential ? "sequential" : "not sequential");
  add_name("model.norm", m.norm, norm_kind_names);
  add("model.norm_eps", m.norm_eps);
  if (facts_of(m.norm).has_alpha()) add("model.norm_alpha", m.norm_alpha);
  add("model.embedding_norm", m.embedding_norm);
  add("model.final_norm", m.final_norm);
  for (int layer = 0; layer < m.layers; ++layer) {
    add_name("model.qk_norm", m.qk_norm_at(layer), qk_norm_names);
    add("model.v_norm", m.v_norm_at(layer));
    add_name("model.attention_gate", m.attention_gate_at(layer), attention_gate_names);
    add_name("model.inner_norm", m.inner_norm_of(layer), inner_norm_names);
  }

  add("model.rope", m.rope);
  add("model.causal", m.causal);
  for (int layer = 0; layer < m.layers; ++layer) {
    const ScoreRule scores = m.scores_at(layer);
    add("scale of attention scores", scores.scale);
    add("soft cap of attention scores", scores.soft_cap);
    add("attention window", scores.window);
    add("non-default RoPE frequencies",
        m.rope && m.rope_frequencies_at(layer) != rope_frequencies(m.head_dim_at(layer), rope_base));
    add("scaled RoPE", !m.rope_gains_at(layer).empty());
    add("query width", m.query_width(layer));
    add("key width", m.key_width(layer));
  }

  add("embedding width", m.embedding_width());
  add("embedding scale", m.embedding.scale);
  add("number of learned positions", m.embedding.positions);
  add("position offset", m.embedding.position_offset);
  add("number of token types", m.embedding.token_types);
  add("model.unembedding", m.unembedding);
  add("head transform", m.head.transform);
  add("scale of logits", m.head.scale);
  add("soft cap of logits", m.head.soft_cap);
  return all;
}

/// Returns `wanted` with default values replaced by the family's fixed properties, taken from `written`.
ModelSpec with_additions(ModelSpec wanted, const ModelSpec& written) {
  const auto take = [](auto& value, const auto& plain, const auto& added) {
    if (value == plain) value = added;
  };
  const EmbeddingSpec plain;
  take(wanted.embedding.scale, plain.scale, written.embedding.scale);
  take(wanted.embedding.positions, plain.positions, written.embedding.positions);
  take(wanted.embedding.position_offset, plain.position_offset, written.embedding.position_offset);
  take(wanted.embedding.token_types, plain.token_types, written.embedding.token_types);
  take(wanted.head.transform, false, written.head.transform);
  if (wanted.attention.empty() && !written.attention.empty()) {
    wanted.attention.resize(written.attention.size());
    for (std::size_t i = 0; i < written.attention.size(); ++i) {
      wanted.attention[i].scores.scale = written.attention[i].scores.scale;
    }
  }
  return wanted;
}

}  // namespace

CheckpointLayout layout_for(const Family& family, const ModelSpec& wanted) {
  validate(token_stack(wanted));
  const nlohmann::json config = nlohmann::json::parse(family.write(wanted).dump());
  ConfigReader reader(config, "written config.json");
  FamilyStack written;
  try {
    written = family.read(reader, written_names(family, wanted.unembedding));
    reader.finish();
  } catch (const InputError& error) {
    throw ConfigError(fmt::format("family {} does not support the model: {}", family.name, error.what()));
  }
  written.model.gamma = wanted.gamma;
  const auto all_wanted = properties_of(with_additions(wanted, written.model));
  const auto all_written = properties_of(written.model);
  if (const auto [one, other] = std::ranges::mismatch(all_wanted, all_written); one != all_wanted.end()) {
    if (one->first == "model.placement") {
      throw ConfigError(fmt::format("model.placement = \"{}\" ({}): expected \"{}\" ({}) for family {}",
                                    wanted.placement.name, one->second, written.model.placement.name, other->second,
                                    family.name));
    }
    throw ConfigError(
        fmt::format("{} = {}: expected {} for family {}", one->first, one->second, other->second, family.name));
  }
  return {config, written.model, written.map, written.layer_scales};
}

}  // namespace periscope
