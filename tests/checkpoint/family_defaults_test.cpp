#include <fmt/format.h>
#include "tests/support/doctest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <set>

#include "sim/checkpoint/checkpoint.h"
#include "sim/checkpoint/family.h"
#include "tests/checkpoint/edited_checkpoint.h"

/// Defaults of missing keys of config.json, copied from the classes of transformers (LlamaConfig, Gemma2Config, …).
namespace periscope::testing {
namespace {

using Json = nlohmann::json;
using Edit = std::function<void(Json&)>;

const Edit nothing = [](Json&) {};

/// Reads the edited config.json of a fixture, without tensor shapes.
FamilyStack read_changed(const std::string& name, const Edit& edit) {
  EditedCheckpoint files(name);
  edit(files.config);
  // Without a head tensor, the model would be tied regardless of the default.
  std::set<std::string> tensors{"lm_head.weight", "cls.predictions.decoder.weight"};
  for (const auto& [tensor, contents] : files.tensors) tensors.insert(tensor);
  const Family& family = *find_family(files.config["model_type"].get<std::string>());
  ConfigReader reader(files.config, "config.json");
  const TensorNames names({tensors.begin(), tensors.end()}, family, "model");
  FamilyStack stack = family.read(reader, names);
  reader.finish();
  return stack;
}

/// Returns the JSON pointer of a key such as "text_config.rms_norm_eps".
Json::json_pointer pointer_to(std::string key) {
  std::ranges::replace(key, '.', '/');
  return Json::json_pointer("/" + key);
}

void set_key(Json& config, const std::string& key, const Json& value) { config[pointer_to(key)] = value; }

void erase_key(Json& config, const std::string& key) {
  const Json::json_pointer pointer = pointer_to(key);
  config[pointer.parent_pointer()].erase(pointer.back());
}

// -- properties of a stack -----------------------------------------------------------------------------
using Value = std::function<double(const FamilyStack&)>;

double eps(const FamilyStack& s) { return s.model.norm_eps; }
double kv_heads(const FamilyStack& s) { return s.model.kv_heads; }
double head_dim(const FamilyStack& s) { return s.model.head_dim; }
double mlp(const FamilyStack& s) { return static_cast<double>(s.model.mlp); }
double mlp_width(const FamilyStack& s) { return s.model.mlp_width; }
double tied(const FamilyStack& s) { return s.tied ? 1.0 : 0.0; }
double head_scale(const FamilyStack& s) { return s.model.head.scale; }
double embedding_scale(const FamilyStack& s) { return s.model.embedding.scale; }
double beta(const FamilyStack& s) { return s.model.rule(0).beta; }
double rope_scale(const FamilyStack& s) { return s.model.attention.at(0).rope_scale; }
double longest(const FamilyStack& s) { return s.model.max_tokens(); }
double head_cap(const FamilyStack& s) { return s.model.head.soft_cap; }
double score_cap(const FamilyStack& s) { return s.model.scores_at(0).soft_cap; }
double score_scale(const FamilyStack& s) { return s.model.scores_at(1).scale; }
/// Returns a bit mask; bit l is set if layer l has an attention window.
double windows(const FamilyStack& s) {
  double bits = 0.0;
  for (int layer = 0; layer < s.model.layers; ++layer) {
    if (s.model.scores_at(layer).window > 0) bits += std::exp2(layer);
  }
  return bits;
}
double window(const FamilyStack& s) {
  int widest = 0;
  for (int layer = 0; layer < s.model.layers; ++layer) widest = std::max(widest, s.model.scores_at(layer).window);
  return widest;
}
double last_head_dim(const FamilyStack& s) { return s.model.head_dim_at(1); }
double last_frequencies(const FamilyStack& s) {
  const std::vector<double> all = s.model.rope_frequencies_at(1);
  return std::accumulate(all.begin(), all.end(), 0.0);
}
double last_kv_heads(const FamilyStack& s) { return s.model.kv_heads_at(1); }
double keys_are_values(const FamilyStack& s) {
  return s.map.find(matrix_id(1, Weight::k))->tensor == s.map.find(matrix_id(1, Weight::v))->tensor ? 1.0 : 0.0;
}
Value bias(Weight weight) {
  return [=](const FamilyStack& s) { return s.map.find(bias_of(matrix_id(0, weight))) != nullptr ? 1.0 : 0.0; };
}
double norm_gain(const FamilyStack& s) { return s.map.find(gain_id(0, Weight::norm_a)) != nullptr ? 1.0 : 0.0; }
double pre(const FamilyStack& s) { return s.model.placement.name == "pre" ? 1.0 : 0.0; }
double final_norm(const FamilyStack& s) { return s.model.final_norm ? 1.0 : 0.0; }
double embedding_width(const FamilyStack& s) { return s.model.embedding_width(); }
double token_types(const FamilyStack& s) { return s.model.embedding.token_types; }
double width(const FamilyStack& s) { return s.model.width; }
double layers(const FamilyStack& s) { return s.model.layers; }
double heads(const FamilyStack& s) { return s.model.heads; }
double vocab(const FamilyStack& s) { return s.model.vocab; }
/// Returns the RoPE frequency with index 1 of a layer.
Value freq(int layer) {
  return [=](const FamilyStack& s) { return s.model.rope_frequencies_at(layer).at(1); };
}

double kind(MlpKind k) { return static_cast<double>(k); }

/// RoPE frequency with index 1: theta^(−2/head_dim).
double freq_of(double theta, double dim) { return std::pow(theta, -2.0 / dim); }

struct Default {
  std::string fixture;
  std::string key;
  Json other;  ///< a value that is not the default
  Value value;
  double with_other;
  double by_default;
  Edit first = nothing;  ///< makes the rest of the file consistent
};

Edit setting(const std::string& key, const Json& value) {
  return [=](Json& c) { set_key(c, key, value); };
}
Edit erasing(const std::string& key) {
  return [=](Json& c) { erase_key(c, key); };
}
Edit both(const Edit& a, const Edit& b) {
  return [=](Json& c) { a(c), b(c); };
}

/// RoPE of type llama3 without original_max_position_embeddings.
Json llama3_rope() {
  return {{"rope_type", "llama3"},
          {"rope_theta", 1e4},
          {"factor", 4.0},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0}};
}
/// RoPE frequency with index 1 at head_dim 4 with `llama3_rope`. Unscaled, it is 10000^(−1/2) = 0.01, which
/// corresponds to a wavelength of 200π tokens.
double scaled_freq(double context) {
  const double waves = context * 0.01 / (2.0 * std::numbers::pi);
  if (waves < 1.0) return 0.01 / 4.0;
  if (waves > 4.0) return 0.01;
  const double smooth = (waves - 1.0) / 3.0;
  return (1.0 - smooth) * 0.01 / 4.0 + smooth * 0.01;
}

/// Rows shared by Llama-like families; `kv`, `dim` and `ties` are the class defaults.
void add_llama_shape(std::vector<Default>& all, const std::string& f, double kv, double dim, double norm_eps,
                     const Edit& fits = nothing, bool ties = false, const Edit& any_width = nothing) {
  all.push_back({f, "rms_norm_eps", 3e-4, eps, 3e-4, norm_eps});
  all.push_back({f, "num_key_value_heads", 1, kv_heads, 1, kv, fits});
  all.push_back({f, "head_dim", 12, head_dim, 12, dim, any_width});
  all.push_back({f, "hidden_act", "gelu", mlp, kind(MlpKind::geglu), kind(MlpKind::swiglu)});
  all.push_back({f, "tie_word_embeddings", !ties, tied, ties ? 0.0 : 1.0, ties ? 1.0 : 0.0});
}

void add_llama_like(std::vector<Default>& all, const std::string& f, double kv, double dim, double norm_eps,
                    double context, const Edit& fits = nothing) {
  add_llama_shape(all, f, kv, dim, norm_eps, fits);
  const Edit plain = both(both(erasing("rope_parameters"), erasing("rope_scaling")), setting("head_dim", 4));
  all.push_back({f, "rope_theta", 100.0, freq(0), freq_of(100.0, 4), freq_of(1e4, 4), plain});
  all.push_back({f, "max_position_embeddings", 1300, freq(0), scaled_freq(1300), scaled_freq(context),
                 both(plain, both(erasing("rope_theta"), setting("rope_parameters", llama3_rope())))});
}

void add_gemma(std::vector<Default>& all, const std::string& f, const std::string& prefix, double default_vocab,
               double default_layers = 26, double default_window = 4096) {
  all.push_back({f, prefix + "hidden_size", 10, width, 10, 2304});
  all.push_back({f, prefix + "num_hidden_layers", 3, layers, 3, default_layers, erasing(prefix + "layer_types")});
  all.push_back({f, prefix + "num_attention_heads", 4, heads, 4, 8});
  all.push_back({f, prefix + "intermediate_size", 5, mlp_width, 5, 9216});
  all.push_back({f, prefix + "num_key_value_heads", 2, kv_heads, 2, 4, setting(prefix + "num_attention_heads", 8)});
  all.push_back({f, prefix + "head_dim", 6, head_dim, 6, 256});
  all.push_back({f, prefix + "vocab_size", 12, vocab, 12, default_vocab});
  all.push_back({f, prefix + "hidden_activation", "silu", mlp, kind(MlpKind::swiglu), kind(MlpKind::geglu_tanh)});
  all.push_back({f, prefix + "rms_norm_eps", 3e-4, eps, 3e-4, 1e-6});
  all.push_back({f, prefix + "sliding_window", 7, window, 7, default_window});
  all.push_back({f, prefix + "attention_bias", true, bias(Weight::k), 1, 0});
}

/// Rows of families with factors, partial RoPE, several kinds of layers or layers without RoPE.
void add_more(std::vector<Default>& all, const std::function<Edit(int)>& with_heads) {
  const Edit plain = both(erasing("rope_parameters"), erasing("rope_scaling"));
  all.push_back({"gpt_neox", "layer_norm_eps", 3e-4, eps, 3e-4, 1e-5});
  all.push_back({"gpt_neox", "hidden_act", "relu", mlp, kind(MlpKind::relu), kind(MlpKind::gelu)});
  all.push_back({"gpt_neox", "use_parallel_residual", false, pre, 1, 0});
  all.push_back({"gpt_neox", "attention_bias", false, bias(Weight::q), 0, 1});
  all.push_back({"gpt_neox", "tie_word_embeddings", true, tied, 1, 0});
  const Edit one_head = setting("num_attention_heads", 1);  // of width 8
  all.push_back({"gpt_neox", "rotary_pct", 1.0, freq(0), freq_of(500.0, 8), 0, one_head});
  all.push_back({"gpt_neox", "rotary_emb_base", 100.0, freq(0), freq_of(100.0, 4), freq_of(1e4, 4), one_head});
  all.push_back({"gpt_neox", "max_position_embeddings", 1300, freq(0), scaled_freq(1300), scaled_freq(2048),
                 both(both(one_head, both(erasing("rotary_emb_base"), erasing("rotary_pct"))), [](Json& c) {
                   c["rope_parameters"] = llama3_rope();
                   c["rope_parameters"]["partial_rotary_factor"] = 0.5;
                 })});
  add_llama_like(all, "granite", 4, 2, 1e-6, 2048);
  all.push_back({"granite", "attention_bias", true, bias(Weight::o), 1, 0});
  all.push_back({"granite", "mlp_bias", true, bias(Weight::down), 1, 0});
  all.push_back({"granite", "attention_multiplier", 0.25, score_scale, 0.25, 1});
  all.push_back({"granite", "embedding_multiplier", 6.0, embedding_scale, 6, 1});
  all.push_back({"granite", "residual_multiplier", 0.5, beta, 0.5, 1});
  all.push_back({"granite", "logits_scaling", 4.0, head_scale, 0.25, 1});
  add_llama_shape(all, "phi3", 2, 8, 1e-5, nothing, false, plain);
  all.push_back({"phi3", "rope_theta", 100.0, freq(0), freq_of(100.0, 8), freq_of(1e4, 8), plain});
  all.push_back({"phi3", "max_position_embeddings", 64, rope_scale, std::numbers::sqrt2, 2});  // √(1 + log₈(max/8))
  all.push_back({"phi3", "sliding_window", 5, window, 5, 0});
  all.push_back({"phi3", "original_max_position_embeddings", 64, longest, 64, 4096,
                 [](Json& c) { c["rope_parameters"].erase("original_max_position_embeddings"); }});
  all.push_back({"phi3", "partial_rotary_factor", 0.5, freq(0), freq_of(1e4, 4), freq_of(1e4, 8), plain});
  add_llama_shape(all, "glm4", 2, 128, 1.5625e-7, with_heads(4));
  all.push_back({"glm4", "rope_theta", 100.0, freq(0), freq_of(100.0, 4), freq_of(1e4, 4), plain});
  all.push_back({"glm4", "max_position_embeddings", 1300, freq(0), scaled_freq(1300), scaled_freq(131072),
                 setting("rope_parameters", llama3_rope())});
  all.push_back({"glm4", "attention_bias", false, bias(Weight::k), 0, 1});
  all.push_back({"glm4", "partial_rotary_factor", 1.0, freq(0), freq_of(1e4, 8), freq_of(1e4, 4), plain});
  add_llama_shape(all, "olmo3", 4, 2, 1e-5);
  all.push_back({"olmo3", "rope_theta", 100.0, freq(1), freq_of(100.0, 4), freq_of(5e5, 4), erasing("rope_scaling")});
  all.push_back({"olmo3", "max_position_embeddings", 1300, freq(1), scaled_freq(1300), scaled_freq(2048),
                 both(setting("rope_theta", 1e4), setting("rope_scaling", llama3_rope()))});
  all.push_back({"olmo3", "attention_bias", true, bias(Weight::o), 1, 0});
  all.push_back({"olmo3", "sliding_window", 5, window, 5, 4096});
  all.push_back({"olmo3", "layer_types", {"full_attention", "sliding_attention"}, windows, 2, 3});
  add_llama_shape(all, "smollm3", 4, 2, 1e-6, with_heads(8), true);
  all.push_back({"smollm3", "rope_theta", 100.0, freq(0), freq_of(100.0, 4), freq_of(2e6, 4)});
  all.push_back({"smollm3", "max_position_embeddings", 1300, freq(0), scaled_freq(1300), scaled_freq(32768),
                 both(erasing("rope_theta"), setting("rope_scaling", llama3_rope()))});
  all.push_back({"smollm3", "attention_bias", true, bias(Weight::o), 1, 0});
  all.push_back({"smollm3", "mlp_bias", true, bias(Weight::down), 1, 0});
  all.push_back({"smollm3", "no_rope_layer_interval", 1, freq(0), 0, freq_of(2e6, 4), erasing("no_rope_layers")});
  all.push_back({"smollm3", "use_sliding_window", true, windows, 2, 0});
  all.push_back({"smollm3", "sliding_window", 5, window, 5, 0});
}

std::vector<Default> every_default() {
  std::vector<Default> all;
  const auto with_heads = [](int heads) { return both(setting("num_attention_heads", heads), setting("head_dim", 4)); };
  add_llama_like(all, "llama", 2, 4, 1e-6, 2048);
  all.push_back({"llama", "attention_bias", true, bias(Weight::o), 1, 0});
  all.push_back({"llama", "mlp_bias", true, bias(Weight::down), 1, 0});
  add_llama_like(all, "mistral", 8, 2, 1e-6, 131072, with_heads(16));
  all.push_back({"mistral", "sliding_window", 5, window, 5, 4096});
  add_llama_like(all, "qwen2", 32, 2, 1e-6, 32768, with_heads(64));
  const Edit windowed = both(setting("use_sliding_window", true), erasing("layer_types"));
  all.push_back({"qwen2", "use_sliding_window", true, windows, 6, 0});
  all.push_back({"qwen2", "sliding_window", 5, window, 5, 4096});
  all.push_back({"qwen2", "max_window_layers", 2, windows, 4, 0});
  add_llama_like(all, "qwen3", 32, 128, 1e-6, 32768, with_heads(64));
  all.push_back({"qwen3", "attention_bias", true, bias(Weight::o), 1, 0});
  const Edit from_first = both(setting("sliding_window", 5), setting("max_window_layers", 0));
  all.push_back({"qwen3", "use_sliding_window", true, windows, 3, 0, both(erasing("layer_types"), from_first)});
  all.push_back({"qwen3", "sliding_window", 5, window, 5, 4096, both(windowed, setting("max_window_layers", 0))});
  all.push_back({"qwen3", "max_window_layers", 1, windows, 2, 0, both(windowed, setting("sliding_window", 5))});
  add_llama_like(all, "olmo2", 4, 2, 1e-5, 2048);
  all.push_back({"olmo2", "attention_bias", true, bias(Weight::o), 1, 0});

  add_gemma(all, "gemma2", "", 256000);
  all.push_back({"gemma2", "query_pre_attn_scalar", 25, score_scale, 0.2, 1.0 / 16.0});
  all.push_back({"gemma2", "final_logit_softcapping", 7.0, head_cap, 7, 30});
  all.push_back({"gemma2", "attn_logit_softcapping", 7.0, score_cap, 7, 50});
  all.push_back({"gemma2", "tie_word_embeddings", false, tied, 0, 1});
  all.push_back({"gemma2", "rope_theta", 100.0, freq(0), freq_of(100.0, 4), freq_of(1e4, 4)});
  all.push_back({"gemma2", "max_position_embeddings", 1300, freq(0), scaled_freq(1300), scaled_freq(8192),
                 both(erasing("rope_theta"), setting("rope_parameters", llama3_rope()))});
  const std::string text = "text_config.";
  add_gemma(all, "gemma3-nested", text, 262208);
  all.push_back({"gemma3-nested", text + "query_pre_attn_scalar", 25, score_scale, 0.2, 1.0 / 16.0});
  const auto flat = [](Json& c) { c = Json(c["text_config"]); };
  all.push_back({"gemma3-nested", "final_logit_softcapping", 7.0, head_cap, 7, 0, flat});
  all.push_back({"gemma3-nested", "tie_word_embeddings", false, tied, 0, 1, flat});
  all.push_back({"gemma3-nested", text + "sliding_window_pattern", 3, windows, 0b11011011, 0b11011111,
                 setting(text + "num_hidden_layers", 8)});
  // The first of two layers has a window.
  const Edit plain = erasing(text + "rope_scaling");
  all.push_back({"gemma3-nested", text + "rope_theta", 100.0, freq(1), freq_of(100.0, 4), freq_of(1e6, 4), plain});
  all.push_back({"gemma3-nested", text + "rope_local_base_freq", 100.0, freq(0), freq_of(100.0, 4), freq_of(1e4, 4)});
  const auto nested_ropes = [=](Json& c) {  // as written by transformers since version 5
    for (const char* key : {"rope_theta", "rope_scaling", "rope_local_base_freq"}) c["text_config"].erase(key);
    for (const char* kind : {"full_attention", "sliding_attention"}) {
      c["text_config"]["rope_parameters"][kind] = {{"rope_type", "default"}};
    }
  };
  const std::string of_kind = text + "rope_parameters.";
  all.push_back({"gemma3-nested", of_kind + "full_attention.rope_theta", 100.0, freq(1), freq_of(100.0, 4),
                 freq_of(1e6, 4), nested_ropes});
  all.push_back({"gemma3-nested", of_kind + "sliding_attention.rope_theta", 100.0, freq(0), freq_of(100.0, 4),
                 freq_of(1e4, 4), nested_ropes});
  all.push_back({"gemma3-nested", text + "max_position_embeddings", 1300, freq(1), scaled_freq(1300),
                 scaled_freq(131072),
                 both(setting(text + "rope_theta", 1e4), setting(text + "rope_scaling", llama3_rope()))});

  add_gemma(all, "gemma4", "", 262144, 30, 512);
  all.push_back({"gemma4", "global_head_dim", 6, last_head_dim, 6, 512});
  all.push_back({"gemma4", "num_global_key_value_heads", 1, last_kv_heads, 1, 2});
  all.push_back({"gemma4", "attention_k_eq_v", true, keys_are_values, 1, 0});
  all.push_back({"gemma4", "final_logit_softcapping", 7.0, head_cap, 7, 0});
  all.push_back({"gemma4", "tie_word_embeddings", false, tied, 0, 1});
  all.push_back({"gemma4", "layer_types", {"full_attention", "full_attention"}, windows, 0, 1});
  const std::string partial = "rope_parameters.full_attention.partial_rotary_factor";
  all.push_back({"gemma4", partial, 0.25, freq(1), 0, freq_of(1e6, 8)});
  const double f = freq_of(1e6, 8);  // 0.7 · 4 pairs are rounded down
  all.push_back({"gemma4", partial, 0.7, last_frequencies, 1 + f, 1 + f + f * f + f * f * f});
  all.push_back({"gemma4", "max_position_embeddings", 1300, freq(0), scaled_freq(1300), scaled_freq(131072),
                 setting("rope_parameters.sliding_attention", llama3_rope())});

  add_more(all, with_heads);

  all.push_back({"gpt2-bare", "n_inner", 5, mlp_width, 5, 24});
  all.push_back({"gpt2-bare", "layer_norm_epsilon", 3e-4, eps, 3e-4, 1e-5});
  all.push_back({"gpt2-bare", "activation_function", "relu", mlp, kind(MlpKind::relu), kind(MlpKind::gelu_tanh)});
  all.push_back({"gpt2-bare", "tie_word_embeddings", false, tied, 0, 1});
  all.push_back({"gpt2-bare", "scale_attn_weights", false, score_scale, 0.5, 0.5 / std::numbers::sqrt2});
  all.push_back({"gpt2-bare", "scale_attn_by_inverse_layer_idx", true, score_scale, 0.5 / std::numbers::sqrt2, 0});

  all.push_back({"bert-old", "type_vocab_size", 3, token_types, 3, 2});
  all.push_back({"bert-old", "layer_norm_eps", 3e-4, eps, 3e-4, 1e-12});
  all.push_back({"bert-old", "hidden_act", "relu", mlp, kind(MlpKind::relu), kind(MlpKind::gelu)});
  all.push_back({"bert-old", "tie_word_embeddings", false, tied, 0, 1});

  all.push_back({"opt-post", "word_embed_proj_dim", 4, embedding_width, 4, 6});
  all.push_back({"opt-post", "activation_function", "gelu", mlp, kind(MlpKind::gelu), kind(MlpKind::relu)});
  all.push_back({"opt-post", "do_layer_norm_before", false, pre, 0, 1});
  all.push_back(
      {"opt-post", "_remove_final_layer_norm", true, final_norm, 0, 1, setting("do_layer_norm_before", true)});
  all.push_back({"opt-post", "enable_bias", false, bias(Weight::q), 0, 1});
  all.push_back(
      {"opt-post", "layer_norm_elementwise_affine", false, norm_gain, 0, 1, setting("do_layer_norm_before", true)});
  all.push_back({"opt-post", "tie_word_embeddings", false, tied, 0, 1});
  return all;
}

TEST_CASE("a missing key of config.json takes the default of transformers") {
  for (const Default& row : every_default()) {
    const std::string name = row.fixture + ": " + row.key;
    REQUIRE_MESSAGE(row.with_other != row.by_default, name, ": the row cannot detect a wrong default");
    const auto value_with = [&](const Edit& last) {
      return row.value(read_changed(row.fixture, both(row.first, last)));
    };
    CHECK_MESSAGE(value_with(setting(row.key, row.other)) == approx(row.with_other).epsilon(1e-14), name, " = ",
                  row.other.dump());
    CHECK_MESSAGE(value_with(erasing(row.key)) == approx(row.by_default).epsilon(1e-14), name, " missing");
  }
}

/// Meaning of null in transformers 5.24, which rejects null for all other keys.
const std::map<std::string, double> null_values{
    {"llama: head_dim", 4},
    {"llama: num_key_value_heads", 2},
    {"mistral: head_dim", 2},
    {"mistral: sliding_window", 0},
    {"qwen2: num_key_value_heads", 64},
    {"qwen2: sliding_window", 0},
    {"qwen3: num_key_value_heads", 64},
    {"qwen3: sliding_window", 0},
    {"olmo2: num_key_value_heads", 4},
    {"granite: num_key_value_heads", 4},
    {"phi3: num_key_value_heads", 2},
    {"phi3: sliding_window", 0},
    {"olmo3: num_key_value_heads", 4},
    {"olmo3: layer_types", 3},
    {"smollm3: num_key_value_heads", 8},
    {"smollm3: sliding_window", 0},
    {"gemma2: final_logit_softcapping", 0},
    {"gemma2: attn_logit_softcapping", 0},
    {"gemma3-nested: final_logit_softcapping", 0},
    {"gemma3-nested: text_config.rope_theta", freq_of(1e6, 4)},
    {"gemma4: num_global_key_value_heads", 2},
    {"gemma4: final_logit_softcapping", 0},
    {"gemma4: layer_types", 1},
    {"gpt2-bare: n_inner", 24},
    {"opt-post: word_embed_proj_dim", 6},
};

TEST_CASE("null in config.json means the same as in transformers or is rejected with the key") {
  std::set<std::string> meaningful;
  for (const Default& row : every_default()) {
    const std::string name = row.fixture + ": " + row.key;
    const auto value = [&] { return row.value(read_changed(row.fixture, both(row.first, setting(row.key, nullptr)))); };
    const auto known = null_values.find(name);
    if (known != null_values.end()) {
      CHECK_MESSAGE(value() == approx(known->second).epsilon(1e-14), name);
      meaningful.insert(name);
      continue;
    }
    CAPTURE(name);
    const std::string rejection = "key \"" + row.key + "\" = null: expected ";
    CHECK_THROWS_WITH_AS((void)value(), doctest::Contains(rejection.c_str()), InputError);
  }
  CHECK(meaningful.size() == null_values.size());
  for (const char* key : {"is_causal", "rope_theta", "hidden_act"}) {
    CHECK_THROWS_AS((void)read_changed("mistral", setting(key, nullptr)), InputError);
  }
}

TEST_CASE("config.json of published models is accepted unchanged") {
  const Json published = Json::parse(bytes_of_file(FIXTURES "/../published_configs.json"));
  for (const auto& model : published.items()) {
    CAPTURE(model.key());
    const Json& config = model.value();
    const Family& family = *find_family(config["model_type"].get<std::string>());
    ConfigReader reader(config, "config.json");
    const std::string body(family.body);
    const TensorNames names({body + std::string(family.anchor), "lm_head.weight", "cls.predictions.bias"}, family,
                            "model");
    CHECK_NOTHROW((void)family.read(reader, names));
    CHECK_NOTHROW(reader.finish());
    CHECK(std::ranges::count(family.architectures, config["architectures"][0].get<std::string>()) == 1);
  }
}

/// A key added by vendors, with values that have no effect and one that is rejected.
struct VendorKey {
  std::string fixture, key;
  std::vector<Json> inert;
  Json other;
  std::string expected;
};

TEST_CASE("vendor keys are accepted or rejected by value") {
  const std::vector<VendorKey> all{
      {"llama", "is_llama_config", {true}, false, "true"},
      {"llama", "rope_interleaved", {false}, true, "false"},
      {"qwen2", "use_mrope", {false}, true, "false"},
      {"llama", "use_sliding_window", {false}, true, "false"},
      {"gemma2", "sliding_window_size", {3}, 4, "the same as sliding_window"},
      {"llama", "sliding_window_size", {}, 4096, "the same as sliding_window"},
      {"llama", "use_bidirectional_attention", {false}, true, "false"},
      {"qwen2", "attention_bias", {false}, true, "false"},
      {"qwen3", "mlp_bias", {false}, true, "false"},
      {"llama", "qk_layer_norms", {false}, true, "false"},
      {"llama", "loss_type", {"ForCausalLM"}, "ContrastiveLoss", "\"ForCausalLM\" or \"ForMaskedLM\""},
      {"llama", "activation", {"swiglu"}, "geglu", "\"swiglu\", the gated MLP of hidden_act"},
      {"llama", "is_causal", {true}, false, "true"},
      {"gpt2-bare", "is_causal", {true}, false, "true"},
      {"opt-post", "is_causal", {true}, false, "true"},
      {"gemma3-nested", "text_config.is_causal", {true}, false, "true"},
  };
  for (const VendorKey& row : all) {
    CAPTURE(row.key);
    for (const Json& value : row.inert) CHECK_NOTHROW((void)read_changed(row.fixture, setting(row.key, value)));
    const std::string rejection =
        "unsupported: config.json: key \"" + row.key + "\" = " + row.other.dump() + ": expected " + row.expected;
    CHECK_THROWS_WITH_AS((void)read_changed(row.fixture, setting(row.key, row.other)), rejection.c_str(), InputError);
  }
  CHECK_NOTHROW((void)read_changed("bert-old", setting("is_causal", false)));  // transformers ignores this key
  CHECK_NOTHROW((void)read_changed("gemma2", both(erasing("sliding_window"), setting("sliding_window_size", 4096))));
}

}  // namespace
}  // namespace periscope::testing
