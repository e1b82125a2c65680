#include <functional>

#include "sim/checkpoint/checkpoint.h"
#include "tests/checkpoint/edited_checkpoint.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

using Edit = std::function<void(EditedCheckpoint&)>;

/// A fixture that is made wrong, and a part of the message that must come.
struct Wrong {
  std::string fixture;
  std::string message;
  Edit edit;
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
Edit add_tensor(const std::string& tensor, std::vector<std::int64_t> shape) {
  return [=](EditedCheckpoint& c) { c.add(tensor, shape); };
}

/// What the checkpoint's error says, and nothing else may happen.
std::string rejection(EditedCheckpoint& edited) {
  try {
    const Checkpoint checkpoint(edited.write());
    return "accepted";
  } catch (const InputError& error) {
    CHECK(error.code() == ExitCode::invalid_input);
    return error.what();
  }
}

void check_refused(const std::vector<Wrong>& all) {
  for (const Wrong& wrong : all) {
    EditedCheckpoint edited(wrong.fixture);
    wrong.edit(edited);
    const std::string message = rejection(edited);
    CAPTURE(wrong.fixture);
    CAPTURE(wrong.message);
    CAPTURE(message);
    CHECK(message.find(wrong.message) != std::string::npos);
    CHECK((message.starts_with("malformed: ") || message.starts_with("unsupported: ")));
    CHECK(message.find('\n') == std::string::npos);
  }
}

const std::string expected_layers = "key \"num_hidden_layers\"";
const std::string q0 = "model.layers.0.self_attn.q_proj.weight";

TEST_CASE("values of config.json that cannot be") {
  check_refused({
      {"qwen3", "key \"hidden_size\" is missing: expected a whole number from 1 to", drop("hidden_size")},
      {"qwen3", "key \"hidden_size\" = \"8\": expected a whole number", set("hidden_size", "8")},
      {"qwen3", "key \"hidden_size\" = 8.5: expected a whole number", set("hidden_size", 8.5)},
      {"qwen3", "key \"hidden_size\" = null: expected a whole number", set("hidden_size", nullptr)},
      {"qwen3", expected_layers + " = 0: expected", set("num_hidden_layers", 0)},
      {"qwen3", expected_layers + " = -2: expected", set("num_hidden_layers", -2)},
      {"qwen3", expected_layers + " = 4000000000: expected", set("num_hidden_layers", 4000000000)},
      {"qwen3", expected_layers + " = 18446744073709551615: expected", set("num_hidden_layers", ~std::uint64_t{0})},
      {"qwen3", "key \"num_key_value_heads\" = 3: expected a divisor of num_attention_heads = 4",
       set("num_key_value_heads", 3)},
      {"qwen3", "key \"head_dim\" = 5: expected an even number", set("head_dim", 5)},
      {"qwen3", "key \"rms_norm_eps\" = -1.0: expected a number greater than 0", set("rms_norm_eps", -1.0)},
      {"qwen3", "key \"tie_word_embeddings\" = \"yes\": expected true or false", set("tie_word_embeddings", "yes")},
      {"qwen3", "key \"hidden_act\" = 3: expected a string", set("hidden_act", 3)},
      {"qwen3", "key \"architectures\" = \"Qwen3ForCausalLM\": expected a list",
       set("architectures", "Qwen3ForCausalLM")},
      {"qwen3", "key \"layer_types\" = [\"full_attention\"]: expected a list of num_hidden_layers = 2",
       set("layer_types", {"full_attention"})},
      {"qwen3", "key rope_parameters: expected a JSON object", set("rope_parameters", 3)},
      {"llama-tied", "key \"rope_parameters.factor\" is missing",
       [](EditedCheckpoint& c) { c.config["rope_parameters"].erase("factor"); }},
      {"llama-tied", "key \"rope_parameters.high_freq_factor\" = 0.5: expected more than low_freq_factor",
       [](EditedCheckpoint& c) { c.config["rope_parameters"]["high_freq_factor"] = 0.5; }},
      {"gpt2-bare", "key \"n_head\" = 4: expected a divisor of n_embd = 6", set("n_head", 4)},
      {"bert-old", "key \"num_attention_heads\" = 4: expected a divisor of hidden_size = 6",
       set("num_attention_heads", 4)},
      {"qwen3", "the file: expected a JSON object", [](EditedCheckpoint& c) { c.config = nlohmann::json::array(); }},
      {"qwen3", "key \"model_type\" is missing", drop("model_type")},
  });
}

TEST_CASE("values of config.json that change the function in a way that is not there") {
  check_refused({
      {"qwen3", "key \"model_type\" = \"deepseek_v3\": expected one of llama,", set("model_type", "deepseek_v3")},
      {"qwen3", "key \"architectures\" = [\"Qwen3ForSequenceClassification\"]: expected one of Qwen3ForCausalLM",
       set("architectures", {"Qwen3ForSequenceClassification"})},
      {"qwen3",
       "key \"layer_scalar\" = 1.5: unknown key, may change the function; pass --ignore-key \"layer_scalar\" if",
       set("layer_scalar", 1.5)},
      {"qwen3", "key \"quantization_config\"", set("quantization_config", {{"bits", 4}})},
      {"qwen3", "key \"hidden_act\" = \"quick_gelu\": expected one of silu,", set("hidden_act", "quick_gelu")},
      {"qwen3", "key \"hidden_act\" = \"relu\": expected one of silu,", set("hidden_act", "relu")},
      {"qwen3", "key \"rope_parameters.rope_type\" = \"yarn\": expected default, linear or llama3",
       set("rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 1e4}, {"factor", 4.0}})},
      {"qwen3", "key \"rope_parameters.attention_factor\" = 2.0: unknown",
       set("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}, {"attention_factor", 2.0}})},
      {"qwen3", "key \"rope_parameters.partial_rotary_factor\" = 0.5: expected 1.0",
       set("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}})},
      {"qwen3", "key \"partial_rotary_factor\" = 0.5: expected 1.0", set("partial_rotary_factor", 0.5)},
      {"qwen3", "key \"rope_scaling\" = {", set("rope_scaling", {{"type", "linear"}, {"factor", 2.0}})},
      {"qwen3", "key \"rope_theta\" = 1234.0: expected the same as in rope_parameters", set("rope_theta", 1234.0)},
      {"llama", "key \"rope_scaling.type\" = \"dynamic\": expected default, linear or llama3",
       set("rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}})},
      {"llama", "key \"layer_types\"", set("layer_types", {"full_attention", "sliding_attention"})},
      {"llama", "key \"sliding_window\" = 3: unknown", set("sliding_window", 3)},
      {"mistral", "key \"attention_bias\" = true: expected false", set("attention_bias", true)},
      {"qwen3", "expected no sliding_attention, because use_sliding_window",
       set("layer_types", {"full_attention", "sliding_attention"})},
      {"qwen3", "key \"layer_types\" = [\"full_attention\",\"chunked_attention\"]: expected sliding_attention",
       set("layer_types", {"full_attention", "chunked_attention"})},
      {"gemma2", "key \"use_bidirectional_attention\" = true: expected false",
       set("use_bidirectional_attention", true)},
      {"gemma2", "key \"hidden_act\" = \"gelu\": expected the same as hidden_activation", set("hidden_act", "gelu")},
      {"gemma2", "key \"sliding_window\" = null: expected a number", set("sliding_window", nullptr)},
      {"gemma3-nested", "key \"text_config.attn_logit_softcapping\" = 50.0: expected null",
       [](EditedCheckpoint& c) { c.config["text_config"]["attn_logit_softcapping"] = 50.0; }},
      {"gemma3-nested", "key \"text_config.strange\" = 1: unknown",
       [](EditedCheckpoint& c) { c.config["text_config"]["strange"] = 1; }},
      {"bert-old", "key \"is_decoder\" = true: expected false", set("is_decoder", true)},
      {"bert-old", "key \"position_embedding_type\" = \"relative_key\": expected \"absolute\"",
       set("position_embedding_type", "relative_key")},
      {"gpt2-bare", "key \"add_cross_attention\" = true: expected false", set("add_cross_attention", true)},
      {"gpt2-bare", "key \"activation_function\" = \"tanh\": expected one of relu", set("activation_function", "tanh")},
  });
}

/// Keys of other families, or of versions to come, that change the function: a family that skipped one would compute
/// something else in silence.
TEST_CASE("keys that change the function of some family are refused by every family that does not read them") {
  const std::vector<std::pair<std::string, nlohmann::json>> foreign{
      {"clip_qkv", 8.0},
      {"logit_scale", 0.25},
      {"logits_scaling", 8.0},
      {"attention_multiplier", 0.5},
      {"residual_multiplier", 0.22},
      {"embedding_multiplier", 12.0},
      {"embedding_scale", 2.0},
      {"layer_scale", 0.1},
      {"qk_layernorm", true},
      {"use_qk_norm", true},
      {"use_parallel_residual", true},
      {"parallel_attn", true},
      {"alibi", true},
      {"rotary_pct", 0.25},
      {"rotary_dim", 2},
      {"attention_chunk_size", 4},
      {"no_rope_layers", {1, 0}},
      {"num_experts", 8},
      {"num_local_experts", 8},
      {"num_experts_per_tok", 2},
      {"first_k_dense_replace", 1},
      {"kv_lora_rank", 4},
      {"query_scale", 2.0},
      {"attn_temperature_tuning", true},
      {"altup_num_inputs", 4},
      {"norm_type", "layernorm"},
      {"norm_bias", true},
      {"scale_depth", 1.4},
  };
  std::vector<Wrong> all;
  for (const std::string& name : fixture_names()) {
    const bool nested = name == "gemma3-nested";
    for (const auto& [key, value] : foreign) {
      const bool known = key == "clip_qkv" && name == "olmo2";
      const std::string named = "key \"" + key + "\" = " + value.dump();
      const std::string why = known ? ": expected null" : ": unknown key, may change the function";
      all.push_back({name, named + why, set(key, value)});
      if (!nested) continue;
      all.push_back({name, "key \"text_config." + key + "\" = " + value.dump() + why,
                     [key = key, value = value](EditedCheckpoint& c) { c.config["text_config"][key] = value; }});
    }
  }
  // Keys that one family reads, in the files of those that do not.
  for (const std::string name : {"llama", "olmo2"}) {
    all.push_back({name, "key \"query_pre_attn_scalar\" = 256: unknown", set("query_pre_attn_scalar", 256)});
    all.push_back({name, "key \"final_logit_softcapping\" = 30.0: unknown", set("final_logit_softcapping", 30.0)});
    all.push_back({name, "key \"attn_logit_softcapping\" = 50.0: unknown", set("attn_logit_softcapping", 50.0)});
  }
  for (const std::string name : {"qwen2", "qwen3", "olmo2", "gemma2"}) {
    all.push_back({name, "key \"mlp_bias\" = true: expected false", set("mlp_bias", true)});
  }
  all.push_back({"mistral", "key \"mlp_bias\" = true: expected false", set("mlp_bias", true)});
  all.push_back({"opt-post", "key \"position_embedding_type\" = \"relative_key\": unknown",
                 set("position_embedding_type", "relative_key")});
  check_refused(all);
}

TEST_CASE("kinds of RoPE that are not there are refused by name, in both spellings") {
  std::vector<Wrong> all;
  for (const char* type : {"yarn", "dynamic", "longrope", "su", "ntk", "mrope", "proportional"}) {
    const std::string message = std::string("= \"") + type + "\": expected default, linear or llama3";
    for (const std::string name : {"llama", "mistral", "qwen2", "gemma2"}) {
      all.push_back(
          {name, "key \"rope_scaling.type\" " + message, set("rope_scaling", {{"type", type}, {"factor", 2.0}})});
    }
    all.push_back({"olmo2", "key \"rope_parameters.rope_type\" " + message,
                   set("rope_parameters", {{"rope_type", type}, {"rope_theta", 1e4}, {"factor", 2.0}})});
  }
  check_refused(all);
}

TEST_CASE("activations that are not there are refused by name") {
  std::vector<Wrong> all;
  for (const char* act : {"quick_gelu", "gelu_10", "relu2", "mish", "laplace", "sigmoid", "linear"}) {
    const std::string value = std::string(" = \"") + act + "\": expected one of ";
    for (const auto& [name, key] : {std::pair{"llama", "hidden_act"},
                                    {"mistral", "hidden_act"},
                                    {"olmo2", "hidden_act"},
                                    {"gemma2", "hidden_activation"},
                                    {"gpt2-bare", "activation_function"},
                                    {"bert-old", "hidden_act"},
                                    {"opt-post", "activation_function"}}) {
      all.push_back({name, "key \"" + std::string(key) + "\"" + value, set(key, act)});
    }
  }
  check_refused(all);
}

TEST_CASE("missing, unknown, misshapen and mistyped tensors are rejected by name") {
  check_refused({
      {"qwen3",
       "no tensor \"" + q0 +
           "\": expected [16, 8] (layers.0.attention.q.weight); nearest is \"model.layers.0.self_attn.k_proj.weight\"",
       drop_tensor(q0)},
      {"qwen3", "no tensor \"model.layers.1.self_attn.k_norm.weight\": expected [4] (layers.1.attention.k_norm.gain)",
       drop_tensor("model.layers.1.self_attn.k_norm.weight")},
      {"qwen3", "no tensor \"lm_head.weight\": expected [11, 8] (unembedding.weight)", drop_tensor("lm_head.weight")},
      {"olmo2", "; 14 more are missing", set("num_hidden_layers", 3)},
      {"qwen3", "tensor \"model.layers.1.input_layernorm.weight\" [8]: unknown to family qwen3",
       [](EditedCheckpoint& c) {
         c.config["num_hidden_layers"] = 1;
         c.config["layer_types"] = {"full_attention"};
       }},
      {"qwen3", "tensor \"model.layers.0.layer_scalar\" [1]: unknown to family qwen3",
       add_tensor("model.layers.0.layer_scalar", {1})},
      {"qwen3", "tensor \"model.layers.0.self_attn.k_proj.bias\" [8]: unknown", set("attention_bias", false)},
      {"qwen3", "tensor \"" + q0 + "\": shape [8, 16], expected [16, 8]",
       [](EditedCheckpoint& c) {
         c.tensors[q0].shape = {8, 16};
       }},
      {"qwen3", "tensor \"model.norm.weight\": shape [8, 1], expected [8] (final_norm.gain)",
       [](EditedCheckpoint& c) {
         c.tensors["model.norm.weight"].shape = {8, 1};
       }},
      {"qwen3", "tensor \"lm_head.weight\": shape [11, 8], expected [12, 8] (unembedding.weight)",
       set("vocab_size", 12)},
      {"qwen3", "tensor \"" + q0 + "\": type I64, expected a floating-point type",
       [](EditedCheckpoint& c) { c.integer_tensor = q0; }},
      {"qwen3", "no tensor \"model.embed_tokens.weight\": expected [11, 8] (embedding.weight)",
       drop_tensor("model.embed_tokens.weight")},
      {"qwen3",
       "no tensor \"embed_tokens.weight\" with one of the prefixes \"model.\", \"transformer.\", "
       "\"bert.\", \"language_model.model.\", \"model.language_model.\", \"language_model.\", \"\"; nearest is "
       "\"my.model.embed_tokens.weight\"",
       [](EditedCheckpoint& c) { c.rename_prefix("model.", "my.model."); }},
      {"qwen3", "expected one model, found two: tensors \"model.norm.weight\" and \"module.model.norm.weight\"",
       add_tensor("module.model.norm.weight", {8})},
      {"qwen3", "no tensor \"module.model.norm.weight\": expected [8] (final_norm.gain)",
       [](EditedCheckpoint& c) {
         c.tensors.erase("model.norm.weight");
         c.rename_prefix("", "module.");
       }},
      {"qwen3",
       "tensor \"base_model.model." + q0.substr(0, q0.size() - 6) +
           "lora_A.default.weight\": belongs to an unmerged adapter; merge it with merge_and_unload() of PEFT",
       [](EditedCheckpoint& c) {
         c.add(q0.substr(0, q0.size() - 6) + "lora_A.default.weight", {2, 8});
         c.rename_prefix("", "base_model.model.");
       }},
      {"qwen3", "expected one model, found two: tensors \"model.embed_tokens.weight\" and \"embed_tokens.weight\"",
       add_tensor("embed_tokens.weight", {11, 8})},
      {"llama-tied",
       "tensors \"lm_head.weight\" and \"model.embed_tokens.weight\": expected equal tensors (tied by config.json), "
       "found a different value",
       add_tensor("lm_head.weight", {11, 8})},
      {"llama-tied", "but differ in shape", add_tensor("lm_head.weight", {8, 11})},
      {"gpt2-bare", "no tensor \"h.0.ln_1.bias\": expected [6]", drop_tensor("h.0.ln_1.bias")},
      {"gpt2-bare", "tensor \"h.1.attn.c_attn.weight\": shape [6, 12], expected [6, 18] (layers.1.attention.q.weight)",
       add_tensor("h.1.attn.c_attn.weight", {6, 12})},
      {"gpt2-bare", "tensor \"wpe.weight\": shape [9, 6], expected [10, 6] (positions.weight)", set("n_positions", 10)},
      {"opt-post", "no tensor \"model.decoder.project_in.weight\": expected [6, 4]",
       drop_tensor("model.decoder.project_in.weight")},
      {"opt-post", "tensor \"model.decoder.embed_positions.weight\": shape [11, 6], expected [12, 6]",
       set("max_position_embeddings", 10)},
      {"bert-old", "no tensor \"cls.predictions.transform.LayerNorm.weight\": expected [6] (head_norm.gain)",
       drop_tensor("cls.predictions.transform.LayerNorm.gamma")},
      {"olmo2", "tensor \"model.layers.0.self_attn.q_norm.weight\": shape [2], expected [8]",
       add_tensor("model.layers.0.self_attn.q_norm.weight", {2})},
  });
}

TEST_CASE("a copy of a large tied table is compared in pieces at the right offsets") {
  constexpr std::int64_t vocab = 20'000;  // width 8: two pieces of 65 536 entries and part of a third
  const auto message = [&](std::size_t changed) {
    EditedCheckpoint edited("llama-tied");
    edited.config["vocab_size"] = vocab;
    edited.add("model.embed_tokens.weight", {vocab, 8});
    std::vector<double>& table = edited.tensors["model.embed_tokens.weight"].values;
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<double>(i);  // all pieces differ
    edited.tensors["lm_head.weight"] = edited.tensors["model.embed_tokens.weight"];
    if (changed < table.size()) edited.tensors["lm_head.weight"].values[changed] += 0.5;
    return rejection(edited);
  };
  CHECK(message(std::string::npos) == "accepted");
  for (const std::size_t changed : {0U, 65'535U, 65'536U, 131'072U, 159'999U}) {
    CAPTURE(changed);
    CHECK(message(changed).find("expected equal tensors (tied by config.json), found a different value") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace periscope::testing
