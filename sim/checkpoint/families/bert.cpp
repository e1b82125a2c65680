#include <fmt/format.h>

#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

const std::string embedding_name = "bert.embeddings.word_embeddings.weight";

void map_layer(ParameterMap& map, int layer) {
  const std::string stem = fmt::format("bert.encoder.layer.{}.", layer);
  const auto linear = [&](Weight matrix, const std::string& name) { map_linear(map, layer, matrix, stem + name); };
  linear(Weight::q, "attention.self.query");
  linear(Weight::k, "attention.self.key");
  linear(Weight::v, "attention.self.value");
  linear(Weight::o, "attention.output.dense");
  linear(Weight::up, "intermediate.dense");
  linear(Weight::down, "output.dense");
  map.set_norm(2 * layer, Weight::norm_c, layer_norm(stem + "attention.output.LayerNorm"));
  map.set_norm(2 * layer + 1, Weight::norm_c, layer_norm(stem + "output.LayerNorm"));
}

/// Masked-token head: norm(φ(x Wᵀ + b)), then the embedding's table and a bias. BertModel has no head.
void map_mlm_head(ConfigReader& config, const TensorNames& names, FamilyStack& stack) {
  const std::string head = "cls.predictions.";
  stack.model.unembedding = names.contains(head + "transform.dense.weight") || names.contains(head + "bias");
  if (!stack.model.unembedding) {
    (void)config.flag_or("tie_word_embeddings", true);
    if (is_headless(config)) {
      stack.warnings.emplace_back("no masked-token head (cls.predictions): the stack has no logits");
      return;
    }
    stack.model.unembedding = true;  // so that the missing tensors are reported
  }
  stack.model.head.transform = true;
  ParameterMap& map = stack.map;
  map_linear(map, 0, Weight::head_dense, head + "transform.dense");
  map.set_norm(0, Weight::head_norm, layer_norm(head + "transform.LayerNorm"));
  map_head(config, names, stack, true, embedding_name, head + "decoder.weight");
  // The public implementation adds decoder.bias. It equals the head's own bias if the tables are tied, and in all
  // versions before transformers 5. Otherwise the head's own bias is stored but not used.
  if (!stack.tied && names.contains(head + "decoder.bias")) {
    map.set_bias(0, Weight::unembedding, whole(head + "decoder.bias"));
    stack.unread.push_back(head + "bias");
  } else {
    map.set_bias(0, Weight::unembedding, whole(head + "bias"));
    stack.copies.emplace_back(head + "decoder.bias", head + "bias");
  }
}

/// Post-LN encoder with LayerNorm, learned positions, an embedding norm, no mask, and biases everywhere.
FamilyStack read_bert(ConfigReader& config, const TensorNames& names) {
  skip_harmless_keys(config, false);
  config.harmless({"pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
                   "pooler_type", "directionality", "is_causal"});
  config.must_be("is_decoder", false);
  config.must_be("position_embedding_type", "absolute");
  FamilyStack stack;
  ModelSpec& m = stack.model;
  m.placement = *find_placement("post");
  m.final_norm = false;
  m.embedding_norm = true;
  m.norm = NormKind::layer;
  m.rope = false;
  m.causal = false;
  read_sizes(config, m);
  if (m.width < 2) throw config.malformed_value("hidden_size", "at least 2, because LayerNorm of one feature is 0");
  m.kv_heads = m.heads;
  m.head_dim = divided_head_dim(config, m, "hidden_size", "num_attention_heads");
  m.embedding.positions = config.integer("max_position_embeddings", max_tokens);
  m.embedding.token_types = config.integer_or("type_vocab_size", 2, max_width);
  m.norm_eps = config.positive_or("layer_norm_eps", 1e-12);
  m.mlp = read_plain_mlp(config, "hidden_act", "gelu");

  ParameterMap& map = stack.map;
  map.set(0, Weight::embedding, whole(embedding_name));
  map.set(0, Weight::positions, whole("bert.embeddings.position_embeddings.weight"));
  map.set(0, Weight::token_types, whole("bert.embeddings.token_type_embeddings.weight"));
  map.set_norm(0, Weight::embedding_norm, layer_norm("bert.embeddings.LayerNorm"));
  for (int layer = 0; layer < m.layers; ++layer) map_layer(map, layer);
  map_mlm_head(config, names, stack);
  return stack;
}

nlohmann::ordered_json write_bert(const ModelSpec& m) {
  return {{"architectures", {architecture_for(m, "BertForMaskedLM", "BertModel")}},
          {"model_type", "bert"},
          {"dtype", "float32"},
          {"vocab_size", m.vocab},
          {"hidden_size", m.width},
          {"num_hidden_layers", m.layers},
          {"num_attention_heads", m.heads},
          {"intermediate_size", m.mlp_width},
          {"max_position_embeddings", m.embedding.positions > 0 ? m.embedding.positions : default_positions},
          {"type_vocab_size", m.embedding.token_types > 0 ? m.embedding.token_types : 2},
          {"hidden_act", activation_name(m.mlp)},
          {"layer_norm_eps", m.norm_eps},
          {"tie_word_embeddings", false}};
}

}  // namespace

Family bert_family() {
  return {.name = "bert",
          .architectures = {"BertForMaskedLM", "BertForPreTraining", "BertModel"},
          .body = "bert.",
          .anchor = "embeddings.word_embeddings.weight",
          .first_layer = "encoder.layer.0.",
          .aliases = {{".LayerNorm.weight", ".LayerNorm.gamma"}, {".LayerNorm.bias", ".LayerNorm.beta"}},
          .other_parts = {"bert.pooler.", "pooler.", "cls.seq_relationship."},
          .read = read_bert,
          .write = write_bert};
}

}  // namespace periscope
