#include <fmt/format.h>

#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

constexpr int position_offset = 2;  // the first two rows of the position table are never used
constexpr double norm_eps = 1e-5;   // not configurable

/// Pre-LN, or Post-LN if do_layer_norm_before is false; LayerNorm, learned positions, possibly a narrower embedding.
FamilyStack read_opt(ConfigReader& config, const TensorNames& names) {
  skip_harmless_keys(config);
  FamilyStack stack;
  ModelSpec& m = stack.model;
  m.norm = NormKind::layer;
  m.norm_eps = norm_eps;
  m.rope = false;
  m.width = config.integer("hidden_size", max_width, 2);
  m.layers = read_layers(config, "num_hidden_layers");
  m.heads = m.kv_heads = config.integer("num_attention_heads", max_width);
  m.head_dim = divided_head_dim(config, m, "hidden_size", "num_attention_heads");
  m.mlp_width = config.integer("ffn_dim", max_width);
  m.vocab = config.integer("vocab_size", max_tokens);
  config.null_is_absent("word_embed_proj_dim");
  const int narrow = config.integer_or("word_embed_proj_dim", m.width, max_width);
  m.embedding.width = narrow == m.width ? 0 : narrow;
  m.embedding.positions = config.integer("max_position_embeddings", max_tokens) + position_offset;
  m.embedding.position_offset = position_offset;
  m.mlp = read_plain_mlp(config, "activation_function", "relu");

  const bool before = config.flag_or("do_layer_norm_before", true);
  m.placement = *find_placement(before ? "pre" : "post");
  m.final_norm = !config.flag_or("_remove_final_layer_norm", false) && before;
  const bool bias = config.flag_or("enable_bias", true);
  const bool affine = config.flag_or("layer_norm_elementwise_affine", true);

  ParameterMap& map = stack.map;
  const auto norm = [&](int sublayer, Weight weight, const std::string& name) {
    map.set_norm(sublayer, weight, affine ? layer_norm(name) : StoredNorm{});
  };
  map.set(0, Weight::embedding, whole("model.decoder.embed_tokens.weight"));
  map.set(0, Weight::positions, whole("model.decoder.embed_positions.weight"));
  map.set(0, Weight::project_in, whole("model.decoder.project_in.weight"));
  map.set(0, Weight::project_out, whole("model.decoder.project_out.weight"));
  norm(0, Weight::final_norm, "model.decoder.final_layer_norm");
  for (int layer = 0; layer < m.layers; ++layer) {
    const std::string stem = fmt::format("model.decoder.layers.{}.", layer);
    const auto linear = [&](Weight matrix, const std::string& name) {
      map_linear(map, layer, matrix, stem + name, bias);
    };
    linear(Weight::q, "self_attn.q_proj");
    linear(Weight::k, "self_attn.k_proj");
    linear(Weight::v, "self_attn.v_proj");
    linear(Weight::o, "self_attn.out_proj");
    linear(Weight::up, "fc1");
    linear(Weight::down, "fc2");
    const Weight place = before ? Weight::norm_a : Weight::norm_c;
    norm(2 * layer, place, stem + "self_attn_layer_norm");
    norm(2 * layer + 1, place, stem + "final_layer_norm");
  }
  map_head(config, names, stack, true, "model.decoder.embed_tokens.weight");
  return stack;
}

nlohmann::ordered_json write_opt(const ModelSpec& m) {
  const int positions = m.embedding.positions > 0 ? m.embedding.positions - position_offset : default_positions;
  return {{"architectures", {architecture_for(m, "OPTForCausalLM", "OPTModel")}},
          {"model_type", "opt"},
          {"dtype", "float32"},
          {"vocab_size", m.vocab},
          {"hidden_size", m.width},
          {"word_embed_proj_dim", m.embedding_width()},
          {"num_hidden_layers", m.layers},
          {"num_attention_heads", m.heads},
          {"ffn_dim", m.mlp_width},
          {"max_position_embeddings", positions},
          {"activation_function", activation_name(m.mlp)},
          {"do_layer_norm_before", m.rule(0).norm_a},
          {"_remove_final_layer_norm", m.rule(0).norm_a && !m.final_norm},
          {"enable_bias", true},
          {"layer_norm_elementwise_affine", true},
          {"tie_word_embeddings", false}};
}

}  // namespace

Family opt_family() {
  return {.name = "opt",
          .architectures = {"OPTForCausalLM", "OPTModel"},
          .anchor = "decoder.embed_tokens.weight",
          .first_layer = "decoder.layers.0.",
          .read = read_opt,
          .write = write_opt};
}

}  // namespace periscope
