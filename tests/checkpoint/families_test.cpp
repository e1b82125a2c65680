#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "sim/checkpoint/checkpoint_weights.h"
#include "sim/checkpoint/finite_weights.h"
#include "sim/checkpoint/weight_check.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "tests/checkpoint/edited_checkpoint.h"
#include "tests/checkpoint/parity.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

std::vector<double> logits_of(const std::string& folder, const std::vector<int>& ids) {
  const Checkpoint checkpoint(folder);
  const Target& target = targets().front();
  const CheckpointWeights weights(*target.backend, checkpoint, DType::f64);
  const StackContext context{.ops = *target.backend, .model = checkpoint.model(), .weights = weights};
  return target.backend->to_host(
      logits_forward(context, stack_forward(context, embedding_forward(context, ids)).output));
}

TEST_CASE("every fixture agrees with transformers, forward and backward, on every backend") {
  std::set<std::string_view> families;
  for (const std::string& name : fixture_names()) {
    families.insert(Checkpoint(fixture(name)).family().name);
    for (const Target& target : targets_and_truth()) {
      const TensorError worst = worst_of(compare_with_expected(fixture(name), target));
      INFO("name := ", name, ", target.name() := ", target.name(), ", worst.name := ", worst.name);
      // Errors in f64 are at most 2e-14. The bound for f32 is twice the bound of reference_parity, since rounding the
      // weights of olmo2 (two features per key) to f32 changes the gradient of k_norm by up to 270 · 2⁻²⁴ = 1.6e-5.
      CHECK(worst.error <= (target.dtype == DType::f64 ? 1e-10 : 2e-5));
    }
  }
  CHECK(families.size() == family_table().size());
}

TEST_CASE("a check of weights reports the size of every row once") {
  for (const std::string& name : fixture_names()) {
    const Checkpoint checkpoint(fixture(name));
    std::uint64_t expected = 0, read = 0;
    for (const auto& [tensor, uses] : checkpoint.uses()) expected += checkpoint.files().values(tensor).size();
    (void)check_weights(checkpoint, {}, [&](std::uint64_t numbers) { read += numbers; });
    CHECK_MESSAGE(read == expected, name);
  }
}

/// An edit of a fixture that does not change the logits.
struct Respelling {
  std::string fixture;
  std::function<void(EditedCheckpoint&)> edit;
};

TEST_CASE("equivalent spellings of keys and tensor names give the same logits, bit for bit") {
  const std::vector<Respelling> all{
      {"llama-tied", [](EditedCheckpoint&) {}},
      {"llama-tied", [](EditedCheckpoint& c) { c.config["nothing"] = nullptr; }},
      {"llama-tied", [](EditedCheckpoint& c) { c.config.erase("architectures"); }},
      {"llama-tied", [](EditedCheckpoint& c) { c.tensors["lm_head.weight"] = c.tensors["model.embed_tokens.weight"]; }},
      {"llama-tied", [](EditedCheckpoint& c) { c.config.erase("tie_word_embeddings"); }},
      {"llama-tied", [](EditedCheckpoint& c) { c.config.erase("hidden_act"); }},
      {"llama-tied", [](EditedCheckpoint& c) { c.config["hidden_act"] = "swish"; }},
      {"llama-tied", [](EditedCheckpoint& c) { c.config["rope_theta"] = 10000; }},
      {"llama-tied", [](EditedCheckpoint& c) { c.config["rope_scaling"] = c.config["rope_parameters"]; }},
      {"llama-tied", [](EditedCheckpoint& c) { c.add("model.layers.0.self_attn.rotary_emb.inv_freq", {2}); }},
      {"llama-tied", [](EditedCheckpoint& c) { c.rename_prefix("model.", ""); }},
      {"llama-tied", [](EditedCheckpoint& c) { c.rename_prefix("model.", "model.language_model."); }},
      {"llama-tied",  // as written by transformers before version 5
       [](EditedCheckpoint& c) {
         nlohmann::json rope = c.config["rope_parameters"];
         c.config.erase("rope_parameters");
         rope.erase("rope_theta");
         rope["type"] = rope["rope_type"];
         rope.erase("rope_type");
         c.config["rope_scaling"] = rope;
         c.config["rope_theta"] = 10000.0;
       }},
      {"llama-tied", [](EditedCheckpoint& c) { c.rename("model.embed_tokens.weight", "lm_head.weight"); }},
      {"llama-tied", [](EditedCheckpoint& c) { c.rename_prefix("", "_orig_mod."); }},
      {"llama-tied", [](EditedCheckpoint& c) { c.rename_prefix("model.layers.1.", "model.layers.1._orig_mod."); }},
      {"llama-tied",
       [](EditedCheckpoint& c) {
         c.rename("model.embed_tokens.weight", "lm_head.weight");
         c.rename_prefix("", "module._orig_mod.module.");
       }},
      {"qwen3", [](EditedCheckpoint& c) { c.rename_prefix("", "base_model.model."); }},
      {"qwen3", [](EditedCheckpoint& c) { c.rename_prefix("", "language_model."); }},
      {"qwen2",
       [](EditedCheckpoint& c) {
         c.config["layer_types"] = {"full_attention", "sliding_attention", "sliding_attention"};
       }},
      {"gemma2",
       [](EditedCheckpoint& c) {
         c.config["layer_types"] = {"sliding_attention", "full_attention"};
       }},
      {"gemma2", [](EditedCheckpoint& c) { c.config["hidden_act"] = "gelu_pytorch_tanh"; }},
      {"gemma3-nested",
       [](EditedCheckpoint& c) {
         c.config = c.config["text_config"];
         c.tensors.erase("vision_tower.patches.weight");
         c.rename_prefix("language_model.", "");
       }},
      {"gemma4", [](EditedCheckpoint& c) { c.config.erase("rope_parameters"); }},
      {"gemma4", [](EditedCheckpoint& c) { c.config["use_bidirectional_attention"] = "vision"; }},
      {"gemma4",  // transformers removes the window of the last layer
       [](EditedCheckpoint& c) {
         c.config["layer_types"] = {"sliding_attention", "sliding_attention"};
       }},
      {"gemma4",  // as written by transformers
       [](EditedCheckpoint& c) {
         c.config["per_layer_config"]["1"] = {{"head_dim", 8}, {"num_key_value_heads", 1}};
         c.config.erase("global_head_dim");
         c.config.erase("num_global_key_value_heads");
       }},
      {"gemma4",  // as a part of a multimodal model
       [](EditedCheckpoint& c) {
         c.config = {{"model_type", "gemma4"}, {"text_config", c.config}, {"vision_config", {{"hidden_size", 4}}}};
         c.config["text_config"].erase("architectures");
         c.rename_prefix("model.", "model.language_model.");
         c.add("model.embed_vision.embedding_projection.weight", {3, 2});
       }},
      {"gpt2-bare", [](EditedCheckpoint& c) { c.rename_prefix("", "transformer."); }},
      {"gpt2-bare",
       [](EditedCheckpoint& c) {
         c.rename_prefix("", "transformer.");
         c.rename("transformer.wte.weight", "lm_head.weight");
       }},
      {"bert-old", [](EditedCheckpoint& c) { c.rename_prefix("", "module."); }},
      {"bert-old",
       [](EditedCheckpoint& c) {
         c.rename("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight");
       }},
      {"bert-old",
       [](EditedCheckpoint& c) {
         c.rename("bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight");
         c.add("bert.embeddings.position_ids", {1, 9});
         c.tensors["cls.predictions.decoder.bias"] = c.tensors["cls.predictions.bias"];
       }},
      {"opt-bare", [](EditedCheckpoint& c) { c.rename_prefix("", "model."); }},
      {"gpt_neox", [](EditedCheckpoint& c) { c.rename("embed_out.weight", "lm_head.weight"); }},
      {"gpt_neox", [](EditedCheckpoint& c) { c.rename_prefix("gpt_neox.", ""); }},
      {"gpt_neox",
       [](EditedCheckpoint& c) {
         c.add("gpt_neox.layers.0.attention.bias", {1, 1, 4, 4});
       }},
      {"gpt_neox",  // as written by transformers since version 5
       [](EditedCheckpoint& c) {
         c.config["rope_parameters"] = {
             {"rope_type", "default"}, {"rope_theta", 500.0}, {"partial_rotary_factor", 0.5}};
         c.config.erase("rotary_pct");
         c.config.erase("rotary_emb_base");
       }},
      {"phi3", [](EditedCheckpoint& c) { c.config["rope_parameters"]["rope_type"] = "su"; }},
      {"phi3", [](EditedCheckpoint& c) { c.config["rope_parameters"]["rope_type"] = "yarn"; }},
      {"phi3", [](EditedCheckpoint& c) { c.config["rope_parameters"]["factor"] = 4.0; }},
      {"phi3",  // as written by transformers before version 5
       [](EditedCheckpoint& c) {
         nlohmann::json rope = c.config["rope_parameters"];
         c.config["partial_rotary_factor"] = rope["partial_rotary_factor"];
         c.config["rope_theta"] = rope["rope_theta"];
         c.config["rope_scaling"] = {
             {"type", "longrope"}, {"short_factor", rope["short_factor"]}, {"long_factor", rope["long_factor"]}};
         c.config.erase("rope_parameters");
       }},
      {"glm4",
       [](EditedCheckpoint& c) {
         c.config.erase("rope_parameters");
         c.config["rope_theta"] = 10000.0;
         c.config["partial_rotary_factor"] = 0.5;
       }},
      {"olmo3",
       [](EditedCheckpoint& c) {
         nlohmann::json full = c.config["rope_scaling"];
         full["rope_theta"] = 500000.0;
         c.config["rope_parameters"] = {{"full_attention", full},
                                        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 500000.0}}}};
         c.config.erase("rope_scaling");
         c.config.erase("rope_theta");
       }},
      {"olmo3", [](EditedCheckpoint& c) { c.config["rope_scaling"]["beta_slow"] = 1; }},
      {"smollm3", [](EditedCheckpoint& c) { c.config.erase("no_rope_layers"); }},
      {"smollm3",
       [](EditedCheckpoint& c) {
         c.config["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
       }},
      {"opt-bare", [](EditedCheckpoint& c) { c.rename("decoder.embed_tokens.weight", "lm_head.weight"); }},
  };
  for (const auto& [name, edit] : all) {
    EditedCheckpoint edited(name);
    edit(edited);
    check_same_bits(name, logits_of(edited.write(), {3, 9, 4, 4, 10}), logits_of(fixture(name), {3, 9, 4, 4, 10}));
  }
}

TEST_CASE("names of tied tensors are read from the metadata even if config.json declares no tie") {
  EditedCheckpoint edited("gpt2-bare");
  edited.config["tie_word_embeddings"] = false;
  edited.rename("wte.weight", "lm_head.weight");
  edited.metadata = {{"wte.weight", "lm_head.weight"}};
  const std::string folder = edited.write();
  const Checkpoint checkpoint(folder);
  CHECK(checkpoint.tied());
  CHECK(checkpoint.warnings().size() == 1);
  check_same_bits("gpt2", logits_of(folder, {3, 9, 4}), logits_of(fixture("gpt2-bare"), {3, 9, 4}));
}

TEST_CASE("--ignore-key ignores unknown keys with a warning, but rejects keys that are read or change the function") {
  const std::string nested = "rope_parameters.strange";
  EditedCheckpoint edited("llama-tied");
  edited.config["strange"] = 1;
  edited.config["rope_parameters"]["strange"] = {2};
  edited.config["use_mrope"] = false;
  edited.config["loss_type"] = nullptr;
  const std::string folder = edited.write();
  const std::vector<std::string> unknown{"strange", "use_mrope", nested, "loss_type"};
  const Checkpoint checkpoint(folder, unknown);
  CHECK(checkpoint.ignored_keys() == std::vector<std::string>{"loss_type", nested, "strange", "use_mrope"});
  REQUIRE(checkpoint.warnings().size() == 4);
  CHECK(checkpoint.warnings()[2].find("\"strange\"") != std::string::npos);
  CHECK_THROWS_WITH_AS(Checkpoint(folder, {"strange"}), doctest::Contains(nested.c_str()), InputError);

  const std::vector<std::pair<std::string, nlohmann::json>> rejected{
      {"rms_norm_eps", 1e-5},
      {"is_causal", false},
      {"activation", "relu"},
      {"model_type", "llama"},
      {"architectures", {"LlamaForCausalLM"}},
      {"rope_scaling", {{"rope_type", "yarn"}}},
      {"quantization_config", {{"bits", 4}}},
      {"mlp_bias", true},
      {"use_mrope", true},
      {"rope_interleaved", true},
      {"is_llama_config", false},
      {"sliding_window_size", 7},
  };
  for (const auto& row : rejected) {
    CAPTURE(row.first);
    EditedCheckpoint other("llama-tied");
    other.config["strange"] = 1;
    other.config[row.first] = row.second;
    const std::string words = "--ignore-key \"" + row.first + "\": ";
    CHECK_THROWS_WITH_AS(Checkpoint(other.write(), {"strange", row.first}), doctest::Contains(words.c_str()),
                         ConfigError);
  }
  for (const auto& [key, nearest] : std::map<std::string, std::string>{{"strang", "strange"},
                                                                       {"use_mropes", "use_mrope"},
                                                                       {"rope_parameters.stranger", nested},
                                                                       {"stranges", "strange"}}) {
    std::vector<std::string> keys = unknown;
    keys.push_back(key);
    const std::string words = "nearest is \"" + nearest + "\"";
    CHECK_THROWS_WITH_AS(Checkpoint(folder, keys), doctest::Contains(words.c_str()), ConfigError);
  }
}

TEST_CASE("messages name a non-finite entry by its tensor and its index in the file") {
  struct Row {
    std::string name, tensor, words;
    std::size_t index;
  };
  const std::vector<Row> rows{
      {"gpt2-bare", "h.0.attn.c_attn.weight", "h.0.attn.c_attn.weight (k part): entry 26", 26},
      {"gpt2-bare", "h.1.attn.c_attn.bias", "h.1.attn.c_attn.bias (v part): entry 17", 17},
      {"gpt2-bare", "h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.weight: entry 5", 5},
      {"llama-tied", "model.embed_tokens.weight", "model.embed_tokens.weight: entry 9", 9},
      {"gemma2", "model.norm.weight", "model.norm.weight: 1 + entry 3", 3},
      {"gpt_neox", "gpt_neox.layers.0.attention.query_key_value.weight",
       "gpt_neox.layers.0.attention.query_key_value.weight (k part): entry 131", 131},
  };
  for (const Row& row : rows) {
    CAPTURE(row.words);
    EditedCheckpoint edited(row.name);
    edited.tensors.at(row.tensor).values.at(row.index) = std::nan("");
    const Checkpoint checkpoint(edited.write());
    CHECK(find_non_finite_weight(checkpoint) == row.words + " is nan");
    CHECK_FALSE(find_non_finite_weight(checkpoint, [](const ParameterId&, std::int64_t) { return false; }));
  }
}

TEST_CASE("a headless architecture has no logits") {
  EditedCheckpoint edited("qwen3");
  edited.tensors.erase("lm_head.weight");
  edited.config["architectures"] = {"Qwen3Model"};
  const Checkpoint checkpoint(edited.write());
  CHECK_FALSE(checkpoint.model().unembedding);
  CHECK(checkpoint.warnings().size() == 1);
}

TEST_CASE("an untied masked-token head uses its own bias") {
  EditedCheckpoint edited("bert-old");
  edited.config["tie_word_embeddings"] = false;
  edited.add("cls.predictions.decoder.bias", {11});
  const Checkpoint checkpoint(edited.write());
  CHECK_FALSE(checkpoint.tied());
  CHECK(checkpoint.map().find(bias_of(matrix_id(0, Weight::unembedding)))->tensor == "cls.predictions.decoder.bias");
  CHECK(std::ranges::count(checkpoint.unused(), "cls.predictions.bias") == 1);
}

TEST_CASE("a checkpoint without tie_word_embeddings and without a head is tied") {
  EditedCheckpoint edited("qwen3");
  edited.tensors.erase("lm_head.weight");
  edited.config.erase("tie_word_embeddings");
  const Checkpoint checkpoint(edited.write());
  CHECK(checkpoint.tied());
  CHECK(checkpoint.warnings().size() == 1);
}

TEST_CASE("published checkpoints of the shared folder load and run") {
  const std::string shared = std::string(SHARED_FOLDER) + "/checkpoints/";
  if (!std::filesystem::exists(shared)) {
    MESSAGE("skipped: no folder " << shared);
    return;
  }
  CHECK(logits_of(shared + "gpt_by_hand", {1, 2, 3}).size() == 3 * 32);
  // golden.json lists a greedy continuation: every token has the largest logit at the previous position.
  const nlohmann::json golden = nlohmann::json::parse(bytes_of_file(shared + "stories260K/golden.json"));
  const auto ids = golden["ids"].get<std::vector<int>>();
  const std::vector<double> logits = logits_of(shared + "stories260K", ids);
  const std::size_t vocabulary = logits.size() / ids.size();
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(t * vocabulary);
    CHECK(std::max_element(row, row + static_cast<std::ptrdiff_t>(vocabulary)) - row == ids[t + 1]);
  }
}

}  // namespace
}  // namespace periscope::testing
