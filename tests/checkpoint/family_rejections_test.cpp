#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "sim/checkpoint/checkpoint.h"
#include "tests/checkpoint/edited_checkpoint.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

using Edit = std::function<void(EditedCheckpoint&)>;

/// An invalid edit of a fixture, and a part of the expected message.
struct InvalidEdit {
  std::string fixture;
  std::string message;
  Edit edit;
};

/// A key of config.json with an invalid value. The message must quote the key.
struct InvalidKey {
  std::string fixture;
  std::string key;
  nlohmann::json value;
};

Edit set(const std::string& key, const nlohmann::json& value) {
  return [=](EditedCheckpoint& c) { c.config[key] = value; };
}
Edit drop(const std::string& key) {
  return [=](EditedCheckpoint& c) { c.config.erase(key); };
}
Edit drop_tensor(const std::string& tensor) {
  return [=](EditedCheckpoint& c) { c.tensors.erase(tensor); };
}
Edit add_tensor(const std::string& tensor, const std::vector<std::int64_t>& shape) {
  return [=](EditedCheckpoint& c) { c.add(tensor, shape); };
}

/// Returns the message of the InputError, or "accepted". Other exceptions propagate.
std::string rejection(EditedCheckpoint& edited) {
  try {
    const Checkpoint checkpoint(edited.write(), {}, Checkpoint::TiedCopies::must_be_equal, Checkpoint::Mixtures::read);
    return "accepted";
  } catch (const InputError& error) {
    CHECK(error.code() == ExitCode::invalid_input);
    return error.what();
  }
}

void check_rejected(const std::vector<InvalidEdit>& all) {
  for (const InvalidEdit& invalid : all) {
    EditedCheckpoint edited(invalid.fixture);
    invalid.edit(edited);
    const std::string message = rejection(edited);
    INFO("invalid.fixture := ", invalid.fixture, ", invalid.message := ", invalid.message, ", message := ", message);
    CHECK(message.find(invalid.message) != std::string::npos);
    CHECK((message.starts_with("malformed: ") || message.starts_with("unsupported: ")));
    CHECK(message.find('\n') == std::string::npos);
  }
}

void check_rejected(const std::vector<InvalidKey>& all) {
  std::vector<InvalidEdit> edits;
  for (const InvalidKey& row : all) edits.push_back({row.fixture, "key \"" + row.key + "\"", set(row.key, row.value)});
  check_rejected(edits);
}

const std::string q0 = "model.layers.0.self_attn.q_proj.weight";

TEST_CASE("invalid values of config.json are rejected with the key") {
  check_rejected(std::vector<InvalidKey>{{"qwen3", "hidden_size", "8"},
                                         {"qwen3", "hidden_size", 8.5},
                                         {"qwen3", "hidden_size", nullptr},
                                         {"qwen3", "num_hidden_layers", 0},
                                         {"qwen3", "num_hidden_layers", -2},
                                         {"qwen3", "num_hidden_layers", 4000000000},
                                         {"qwen3", "num_hidden_layers", ~std::uint64_t{0}},
                                         {"qwen3", "num_key_value_heads", 3},
                                         {"qwen3", "head_dim", 5},
                                         {"qwen3", "rms_norm_eps", -1.0},
                                         {"qwen3", "tie_word_embeddings", "yes"},
                                         {"qwen3", "hidden_act", 3},
                                         {"qwen3", "architectures", "Qwen3ForCausalLM"},
                                         {"qwen3", "layer_types", {"full_attention"}},
                                         {"gpt2-bare", "n_head", 4},
                                         {"bert-old", "num_attention_heads", 4}});
  check_rejected({
      {"qwen3", "key \"hidden_size\" is missing", drop("hidden_size")},
      {"qwen3", "key \"model_type\" is missing", drop("model_type")},
      {"qwen3", "key rope_parameters", set("rope_parameters", 3)},
      {"llama-tied", "key \"rope_parameters.factor\" is missing",
       [](EditedCheckpoint& c) { c.config["rope_parameters"].erase("factor"); }},
      {"llama-tied", "key \"rope_parameters.high_freq_factor\" = 0.5",
       [](EditedCheckpoint& c) { c.config["rope_parameters"]["high_freq_factor"] = 0.5; }},
      {"qwen3", "expected a JSON object", [](EditedCheckpoint& c) { c.config = nlohmann::json::array(); }},
  });
}

TEST_CASE("unsupported values of config.json are rejected with the key") {
  check_rejected(std::vector<InvalidKey>{{"qwen3", "model_type", "deepseek_v3"},
                                         {"qwen3", "architectures", {"Qwen3ForSequenceClassification"}},
                                         {"qwen3", "layer_scalar", 1.5},
                                         {"qwen3", "quantization_config", {{"bits", 4}}},
                                         {"qwen3", "hidden_act", "relu"},
                                         {"qwen3", "partial_rotary_factor", 0.5},
                                         {"qwen3", "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
                                         {"qwen3", "rope_theta", 1234.0},
                                         {"llama", "layer_types", {"full_attention", "sliding_attention"}},
                                         {"llama", "sliding_window", 3},
                                         {"mistral", "attention_bias", true},
                                         {"qwen3", "layer_types", {"full_attention", "sliding_attention"}},
                                         {"qwen3", "layer_types", {"full_attention", "chunked_attention"}},
                                         {"gemma2", "use_bidirectional_attention", true},
                                         {"gemma2", "hidden_act", "gelu"},
                                         {"gemma2", "sliding_window", nullptr},
                                         {"gemma4", "use_bidirectional_attention", "all"},
                                         {"gemma4", "hidden_size_per_layer_input", 8},
                                         {"gemma4", "enable_moe_block", true},
                                         {"gemma4", "num_kv_shared_layers", 1},
                                         {"gemma4", "global_head_dim", 7},
                                         {"gemma4", "num_global_key_value_heads", 3},
                                         {"gemma4", "attn_logit_softcapping", 50.0},
                                         {"gemma4", "query_pre_attn_scalar", 256},
                                         {"gemma4", "per_layer_config", {{"0", {{"head_dim", 8}}}}},
                                         {"gemma4", "per_layer_config", nullptr},
                                         {"bert-old", "is_decoder", true},
                                         {"bert-old", "position_embedding_type", "relative_key"},
                                         {"opt-post", "position_embedding_type", "relative_key"},
                                         {"gpt2-bare", "add_cross_attention", true},
                                         {"gpt2-bare", "activation_function", "tanh"}});
  check_rejected({
      {"qwen3", "key \"model_type\" = \"qwen2_moe\": expected a family without mixtures of experts",
       set("model_type", "qwen2_moe")},
      {"qwen3", "key \"rope_parameters.attention_factor\"",
       set("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}, {"attention_factor", 2.0}})},
      {"qwen3", "key \"rope_parameters.partial_rotary_factor\"",
       set("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}})},
      {"gemma4", "key \"hidden_size_per_layer_input\" is missing: expected 0", drop("hidden_size_per_layer_input")},
      {"gemma4", "key \"per_layer_config.1.sliding_window\"",
       [](EditedCheckpoint& c) {
         c.config["per_layer_config"]["1"] = {{"sliding_window", 2}};
       }},
      {"gemma4", "key \"rope_parameters.full_attention.rope_theta\" is missing",
       [](EditedCheckpoint& c) { c.config["rope_parameters"]["full_attention"].erase("rope_theta"); }},
      {"gemma4", "key \"rope_parameters.full_attention.partial_rotary_factor\" = 1.5",
       [](EditedCheckpoint& c) { c.config["rope_parameters"]["full_attention"]["partial_rotary_factor"] = 1.5; }},
      {"gemma4", "key \"rope_parameters.sliding_attention.partial_rotary_factor\" = 0.5: expected 1",
       [](EditedCheckpoint& c) { c.config["rope_parameters"]["sliding_attention"]["partial_rotary_factor"] = 0.5; }},
      {"gemma3-nested", "key \"text_config.attn_logit_softcapping\"",
       [](EditedCheckpoint& c) { c.config["text_config"]["attn_logit_softcapping"] = 50.0; }},
      {"gemma3-nested", "key \"text_config.strange\"",
       [](EditedCheckpoint& c) { c.config["text_config"]["strange"] = 1; }},
  });
}

TEST_CASE("keys that change the function in other families are rejected by families that do not read them") {
  const auto foreign = nlohmann::json::parse(R"({
    "clip_qkv": 8.0, "logit_scale": 0.25, "logits_scaling": 8.0, "attention_multiplier": 0.5,
    "residual_multiplier": 0.22, "embedding_multiplier": 12.0, "embedding_scale": 2.0, "layer_scale": 0.1,
    "qk_layernorm": true, "use_qk_norm": true, "use_parallel_residual": true, "parallel_attn": true, "alibi": true,
    "rotary_pct": 0.25, "rotary_dim": 2, "attention_chunk_size": 4, "no_rope_layers": [1, 0], "num_experts": 8,
    "num_local_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "kv_lora_rank": 4,
    "query_scale": 2.0, "attn_temperature_tuning": true, "altup_num_inputs": 4, "norm_type": "layernorm",
    "norm_bias": true, "scale_depth": 1.4})");
  const std::map<std::string, std::set<std::string>> own{
      {"granite", {"logits_scaling", "attention_multiplier", "residual_multiplier", "embedding_multiplier"}},
      {"gpt_neox", {"use_parallel_residual", "rotary_pct"}},
      {"smollm3", {"no_rope_layers"}}};
  std::vector<InvalidKey> all;
  std::vector<InvalidEdit> nested;
  for (const std::string& name : fixture_names()) {
    for (const auto& [key, value] : foreign.items()) {
      if (own.contains(name) && own.at(name).contains(key)) continue;
      all.push_back({name, key, value});
      if (name != "gemma3-nested") continue;
      nested.push_back({name, "key \"text_config." + key + "\"",
                        [key = key, value = value](EditedCheckpoint& c) { c.config["text_config"][key] = value; }});
    }
  }
  // Keys that some families read, in files of other families.
  for (const std::string name : {"llama", "olmo2"}) {
    all.push_back({name, "query_pre_attn_scalar", 256});
    all.push_back({name, "final_logit_softcapping", 30.0});
    all.push_back({name, "attn_logit_softcapping", 50.0});
  }
  for (const std::string name : {"mistral", "qwen2", "qwen3", "olmo2", "gemma2"})
    all.push_back({name, "mlp_bias", true});
  check_rejected(all);
  check_rejected(nested);
}

TEST_CASE("unsupported activations and kinds of RoPE, in both spellings, are rejected with the key") {
  std::vector<InvalidKey> all;
  std::vector<InvalidEdit> nested;
  for (const char* type : {"dynamic", "su", "ntk", "mrope", "proportional"}) {
    const std::string value = std::string(" = \"") + type + "\"";
    for (const std::string name : {"llama", "mistral", "qwen2", "gemma2"}) {
      nested.push_back(
          {name, "key \"rope_scaling.type\"" + value, set("rope_scaling", {{"type", type}, {"factor", 2.0}})});
    }
    for (const std::string name : {"olmo2", "qwen3"}) {
      nested.push_back({name, "key \"rope_parameters.rope_type\"" + value,
                        set("rope_parameters", {{"rope_type", type}, {"rope_theta", 1e4}, {"factor", 2.0}})});
    }
  }
  for (const char* type : {"linear", "llama3", "dynamic"}) {
    const std::string value = std::string(" = \"") + type + "\"";
    nested.push_back({"phi3", "key \"rope_parameters.rope_type\"" + value,
                      [=](EditedCheckpoint& c) { c.config["rope_parameters"]["rope_type"] = type; }});
  }
  for (const char* activation : {"quick_gelu", "gelu_10", "relu2", "mish", "laplace", "sigmoid", "linear"}) {
    for (const std::string name : {"llama", "mistral", "olmo2", "qwen3", "bert-old"}) {
      all.push_back({name, "hidden_act", activation});
    }
    all.push_back({"gemma2", "hidden_activation", activation});
    for (const std::string name : {"gpt2-bare", "opt-post"}) all.push_back({name, "activation_function", activation});
  }
  check_rejected(all);
  check_rejected(nested);
}

TEST_CASE("invalid keys of RoPE, NoPE layers and factors are rejected with the key") {
  const auto in_rope = [](const std::string& name, const std::string& object, const std::string& key,
                          const nlohmann::json& value) {
    return InvalidEdit{name, "key \"" + object + "." + key + "\"",
                       [=](EditedCheckpoint& c) { c.config[object][key] = value; }};
  };
  check_rejected({
      in_rope("phi3", "rope_parameters", "short_factor", {1.0}),
      in_rope("phi3", "rope_parameters", "long_factor", {1.0, -1.0}),
      in_rope("phi3", "rope_parameters", "short_factor", nullptr),
      in_rope("phi3", "rope_parameters", "original_max_position_embeddings", 16),
      in_rope("phi3", "rope_parameters", "partial_rotary_factor", 1.5),
      in_rope("phi3", "rope_parameters", "partial_rotary_factor", 0.4),
      in_rope("olmo3", "rope_scaling", "truncate", false),
      in_rope("olmo3", "rope_scaling", "factor", nullptr),
      in_rope("olmo3", "rope_scaling", "attention_factor", -1.0),
      in_rope("olmo3", "rope_scaling", "partial_rotary_factor", 0.5),
      in_rope("glm4", "rope_parameters", "rope_type", "proportional"),
  });
  check_rejected(
      std::vector<InvalidKey>{{"gpt_neox", "rotary_pct", 1.25},
                              {"gpt_neox", "rotary_pct", nullptr},
                              {"gpt_neox", "partial_rotary_factor", 0.25},
                              {"gpt_neox", "rope_theta", 1e4},
                              {"gpt_neox", "num_attention_heads", 8},
                              {"gpt_neox", "head_dim", 4},
                              {"gpt_neox", "num_key_value_heads", 1},
                              {"granite", "residual_multiplier", 0.0},
                              {"granite", "logits_scaling", -8.0},
                              {"granite", "num_local_experts", 4},
                              {"phi3", "lm_head_bias", true},
                              {"phi3", "attention_bias", true},
                              {"glm4", "partial_rotary_factor", 0.25},
                              {"olmo3", "layer_types", {"full_attention", "chunked_attention"}},
                              {"olmo3", "sliding_window", nullptr},
                              {"smollm3", "no_rope_layers", {1, 0}},
                              {"smollm3", "no_rope_layers", {1, 2, 0}},
                              {"smollm3", "no_rope_layer_interval", 0},
                              {"smollm3", "layer_types", {"full_attention", "chunked_attention", "full_attention"}}});
  check_rejected({{"smollm3", "key \"layer_types\"",
                   [](EditedCheckpoint& c) {
                     c.config["use_sliding_window"] = false;
                     c.config["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
                   }},
                  {"gpt_neox", "tensor \"gpt_neox.layers.1.attention.query_key_value.weight\": shape [8, 24]",
                   add_tensor("gpt_neox.layers.1.attention.query_key_value.weight", {8, 24})},
                  {"phi3", "tensor \"model.layers.0.mlp.gate_up_proj.weight\": shape [7, 16], expected [14, 16]",
                   add_tensor("model.layers.0.mlp.gate_up_proj.weight", {7, 16})}});
}

TEST_CASE("mixtures of experts are rejected by default, and with invalid keys or tensors") {
  const auto mixture_with = [](const Edit& edit) {
    return [=](EditedCheckpoint& c) {
      c.make_mixture(3, 2);
      edit(c);
    };
  };
  for (const std::string name : {"mistral", "qwen3"}) {
    EditedCheckpoint mixture(name);
    mixture.make_mixture(3, 2);
    mixture.config["num_local_experts"] = mixture.config["num_experts"] = 3;
    mixture.config["router_jitter_noise"] = 0.1;
    CHECK(rejection(mixture) == "accepted");
    CHECK_THROWS_WITH_AS(Checkpoint(mixture.write()), doctest::Contains("only certify and info read them"), InputError);
    const std::string count = name == "qwen3" ? "num_experts" : "num_local_experts";
    const std::string other = name == "qwen3" ? "num_local_experts" : "num_experts";
    check_rejected({{name, "key \"num_experts_per_tok\" = 4: expected", mixture_with(set("num_experts_per_tok", 4))},
                    {name, "\" = 1000: expected at most", mixture_with(set(count, 1000))},
                    {name, "\" = 2: expected the same as " + count, mixture_with(set(other, 2))},
                    {name, "key \"n_shared_experts\"", mixture_with(set("n_shared_experts", 1))}});
  }
  const std::string up = "model.layers.1.mlp.experts.2.up_proj.weight";
  check_rejected(
      {{"qwen3", "key \"decoder_sparse_step\" = 2: expected 1", mixture_with(set("decoder_sparse_step", 2))},
       {"qwen3", "key \"mlp_only_layers\" = [0]: expected []", mixture_with(set("mlp_only_layers", {0}))},
       {"qwen3", "\"" + up + "\": expected [7, 8] (layers.1.mlp.experts.2.up.weight)", mixture_with(drop_tensor(up))},
       {"qwen3", "tensor \"model.layers.1.mlp.experts.gate_up_proj\" [3, 14, 8]: unknown",
        mixture_with(add_tensor("model.layers.1.mlp.experts.gate_up_proj", {3, 14, 8}))}});
}

TEST_CASE("missing, unknown, misshapen and mistyped tensors are rejected with the tensor's name") {
  const std::string scale = "model.layers.1.layer_scalar";
  const std::string lora = q0.substr(0, q0.size() - 6) + "lora_A.default.weight";
  check_rejected({
      {"qwen3", "no tensor \"" + q0 + "\": expected [16, 8]", drop_tensor(q0)},
      {"qwen3", "nearest is \"model.layers.0.self_attn.k_proj.weight\"", drop_tensor(q0)},
      {"qwen3", "no tensor \"model.layers.1.self_attn.k_norm.weight\": expected [4]",
       drop_tensor("model.layers.1.self_attn.k_norm.weight")},
      {"qwen3", "no tensor \"lm_head.weight\": expected [11, 8]", drop_tensor("lm_head.weight")},
      {"olmo2", "; 14 more are missing", set("num_hidden_layers", 3)},
      {"qwen3", "tensor \"model.layers.1.input_layernorm.weight\" [8]: unknown",
       [](EditedCheckpoint& c) {
         c.config["num_hidden_layers"] = 1;
         c.config["layer_types"] = {"full_attention"};
       }},
      {"qwen3", "tensor \"model.layers.0.layer_scalar\" [1]: unknown", add_tensor("model.layers.0.layer_scalar", {1})},
      {"qwen3", "tensor \"model.layers.0.self_attn.k_proj.bias\" [8]: unknown", set("attention_bias", false)},
      {"qwen3", "tensor \"" + q0 + "\": shape [8, 16], expected [16, 8]", add_tensor(q0, {8, 16})},
      {"qwen3", "tensor \"model.norm.weight\": shape [8, 1], expected [8]", add_tensor("model.norm.weight", {8, 1})},
      {"qwen3", "tensor \"lm_head.weight\": shape [11, 8], expected [12, 8]", set("vocab_size", 12)},
      {"qwen3", "tensor \"" + q0 + "\": type I64", [](EditedCheckpoint& c) { c.integer_tensor = q0; }},
      {"qwen3", "no tensor \"model.embed_tokens.weight\": expected [11, 8]", drop_tensor("model.embed_tokens.weight")},
      {"qwen3", "nearest is \"my.model.embed_tokens.weight\"",
       [](EditedCheckpoint& c) { c.rename_prefix("model.", "my.model."); }},
      {"qwen3", "tensors \"model.norm.weight\" and \"module.model.norm.weight\"",
       add_tensor("module.model.norm.weight", {8})},
      {"qwen3", "no tensor \"module.model.norm.weight\": expected [8]",
       [](EditedCheckpoint& c) {
         c.tensors.erase("model.norm.weight");
         c.rename_prefix("", "module.");
       }},
      {"qwen3", "tensor \"base_model.model." + lora + "\": belongs to an unmerged adapter",
       [=](EditedCheckpoint& c) {
         c.add(lora, {2, 8});
         c.rename_prefix("", "base_model.model.");
       }},
      {"qwen3", "tensors \"model.embed_tokens.weight\" and \"embed_tokens.weight\"",
       add_tensor("embed_tokens.weight", {11, 8})},
      {"llama-tied", "tensors \"lm_head.weight\" and \"model.embed_tokens.weight\": expected equal tensors",
       add_tensor("lm_head.weight", {11, 8})},
      {"llama-tied", "tensors \"lm_head.weight\" and \"model.embed_tokens.weight\"",
       add_tensor("lm_head.weight", {8, 11})},
      {"gemma4", "no tensor \"" + scale + "\": expected [1] (layer scale)", drop_tensor(scale)},
      {"gemma4", "tensor \"" + scale + "\": shape [2], expected [1]", add_tensor(scale, {2})},
      {"gemma4", "tensor \"" + scale + "\": found 0, expected a finite number other than 0",
       [=](EditedCheckpoint& c) { c.tensors[scale].values = {0.0}; }},
      {"gemma4", "tensor \"" + scale + "\": found nan", [=](EditedCheckpoint& c) { c.tensors[scale].values = {NAN}; }},
      {"gpt2-bare", "no tensor \"h.0.ln_1.bias\": expected [6]", drop_tensor("h.0.ln_1.bias")},
      {"gpt2-bare", "tensor \"h.1.attn.c_attn.weight\": shape [6, 12], expected [6, 18]",
       add_tensor("h.1.attn.c_attn.weight", {6, 12})},
      {"gpt2-bare", "tensor \"wpe.weight\": shape [9, 6], expected [10, 6]", set("n_positions", 10)},
      {"opt-post", "no tensor \"model.decoder.project_in.weight\": expected [6, 4]",
       drop_tensor("model.decoder.project_in.weight")},
      {"opt-post", "tensor \"model.decoder.embed_positions.weight\": shape [11, 6], expected [12, 6]",
       set("max_position_embeddings", 10)},
      {"bert-old", "no tensor \"cls.predictions.transform.LayerNorm.weight\": expected [6]",
       drop_tensor("cls.predictions.transform.LayerNorm.gamma")},
      {"olmo2", "tensor \"model.layers.0.self_attn.q_norm.weight\": shape [2], expected [8]",
       add_tensor("model.layers.0.self_attn.q_norm.weight", {2})},
  });
}

TEST_CASE("a copy of a large tied table is compared in pieces at the right offsets") {
  constexpr std::int64_t vocab = 20'000;  // 160 000 entries: two pieces of 65 536 and part of a third
  const auto message = [&](std::size_t changed) {
    EditedCheckpoint edited("llama-tied");
    edited.config["vocab_size"] = vocab;
    edited.add("model.embed_tokens.weight", {vocab, 8});
    std::vector<double>& table = edited.tensors["model.embed_tokens.weight"].values;
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<double>(i);  // so that all pieces differ
    edited.tensors["lm_head.weight"] = edited.tensors["model.embed_tokens.weight"];
    if (changed < table.size()) edited.tensors["lm_head.weight"].values[changed] += 0.5;
    return rejection(edited);
  };
  CHECK(message(std::string::npos) == "accepted");
  for (const std::size_t changed : {0U, 65'535U, 65'536U, 131'072U, 159'999U}) {
    CAPTURE(changed);
    CHECK(message(changed).find("expected equal tensors") != std::string::npos);
  }
}

}  // namespace
}  // namespace periscope::testing
