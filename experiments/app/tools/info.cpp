#include "experiments/app/tools/info.h"

#include "experiments/app/tools/facts.h"
#include "sim/model/parameters.h"

namespace periscope::app {

using Json = nlohmann::ordered_json;

std::vector<study::Flag<study::CheckpointFlags>> ignore_key_flags() {
  return {study::ignore_key_flag<study::CheckpointFlags>()};
}

Json info_json(const Checkpoint& c, stacks::Progress& progress) {
  const ModelSpec& m = c.model();
  const SublayerRule rule = m.rule(0);
  Json json{{"folder", c.folder()},
            {"family", c.family().name},
            {"model_type", c.config().at("model_type")},
            {"architecture", architecture_of(c)},
            {"placement",
             {{"name", m.placement.name},
              {"letters", letters_of(rule)},
              {"formula", formula_of(rule)},
              {"final_norm", m.final_norm},
              {"embedding_norm", m.embedding_norm},
              {"qk_norm", qk_norm_names[static_cast<std::size_t>(m.qk_norm_at(0))]},
              {"v_norm", m.v_norm_at(0)},
              {"inner_norm", inner_norm_names[static_cast<std::size_t>(m.inner_norm_of(0))]},
              {"attention_gate", attention_gate_names[static_cast<std::size_t>(m.attention_gate_at(0))]}}},
            {"shape",
             {{"layers", m.layers},
              {"width", m.width},
              {"heads", m.heads},
              {"kv_heads", m.kv_heads},
              {"head_dim", m.head_dim},
              {"mlp_width", m.mlp_width},
              {"vocab", m.vocab}}},
            {"mlp", mlp_kind_names[static_cast<std::size_t>(m.mlp)]},
            {"norm", norm_kind_names[static_cast<std::size_t>(m.norm)]},
            {"norm_eps", m.norm_eps},
            {"causal", m.causal},
            {"parameters", parameters_of(c)},
            {"types", types_of(c)},
            {"tied", c.tied()},
            {"logits", m.unembedding},
            {"embedding",
             {{"scale", m.embedding.scale},
              {"width", m.embedding_width()},
              {"positions", m.embedding.positions},
              {"position_offset", m.embedding.position_offset},
              {"token_types", m.embedding.token_types}}},
            {"head", {{"transform", m.head.transform}, {"soft_cap", m.head.soft_cap}}}};
  json["attention"] = Json::array();
  for (const RuleGroup& g : rules_of(m)) {
    json["attention"].push_back({{"layers", g.layers},
                                 {"scale", g.scores.scale},
                                 {"soft_cap", g.scores.soft_cap},
                                 {"window", g.scores.window},
                                 {"rope_frequencies", g.frequencies}});
  }
  json["names"] = Json::array();
  for (const NameRow& row : name_map_of(c)) {
    json["names"].push_back({{"parameter", row.parameter},
                             {"tensor", row.part.tensor},
                             {"first", row.part.first},
                             {"transposed", row.part.transposed},
                             {"plus", row.part.plus}});
  }
  json["tensors"] = Json::object();
  for (const auto& [tensor, uses] : c.uses()) {
    const SafetensorsView& view = c.files().find(tensor);
    Json& entry =
        json["tensors"][tensor] = {{"type", name_of(view.type)}, {"shape", view.shape}, {"parameters", Json::array()}};
    for (const ParameterMap::Use& use : uses) entry["parameters"].push_back(name_of(use.parameter));
  }
  json["unused"] = c.unused();
  json["defaults"] = c.defaults();
  json["warnings"] = warnings_of(c, progress);
  json["ignored_keys"] = c.ignored_keys();
  return json;
}

}  // namespace periscope::app
