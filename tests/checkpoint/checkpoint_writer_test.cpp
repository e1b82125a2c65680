#include "sim/checkpoint/checkpoint_writer.h"

#include "tests/support/doctest.h"

#include "sim/checkpoint/checkpoint_weights.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "tests/checkpoint/edited_checkpoint.h"
#include "tests/checkpoint/parity.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace periscope::testing {
namespace {

const std::vector<int> input_ids{3, 9, 4, 4, 10};

std::vector<double> logits_of(const Backend& ops, const ModelSpec& model, const WeightSource& weights) {
  const StackContext context{.ops = ops, .model = model, .weights = weights};
  return ops.to_host(logits_forward(context, stack_forward(context, embedding_forward(context, input_ids)).output));
}

/// A stack that the family can express, without layer-dependent options.
ModelSpec plain_model(std::string_view family) {
  ModelSpec m;
  m.layers = 2;
  m.width = 12;
  m.heads = m.kv_heads = 3;
  m.head_dim = 4;
  m.mlp_width = 10;
  m.vocab = 11;
  m.gamma = 1.25;
  m.placement = *find_placement("pre");
  if (family.starts_with("gemma")) {
    m.placement = *find_placement("peri");
    m.mlp = MlpKind::geglu_tanh;
  }
  if (family == "glm4") m.placement = *find_placement("peri");
  if (family == "gpt_neox") m.placement = *find_placement("parallel-two");
  if (family == "granite") m.placement = custom_placement({.norm_a = true, .beta = 0.5});
  if (family == "gemma3" || family == "gemma4" || family == "qwen3") m.qk_norm = QkNorm::head;
  m.v_norm = family == "gemma4";
  if (family == "olmo2" || family == "olmo3") {
    m.placement = *find_placement("b-only");
    m.qk_norm = QkNorm::full;
  }
  if (family == "gpt2" || family == "opt" || family == "bert" || family == "gpt_neox") {
    m.norm = NormKind::layer;
    m.norm_eps = 1e-5;
    m.rope = family == "gpt_neox";
    m.mlp = family == "opt" ? MlpKind::relu : MlpKind::gelu;
  } else {
    m.kv_heads = 1;
    m.head_dim = 6;
  }
  if (family == "bert") {
    m.placement = *find_placement("post");
    m.final_norm = false;
    m.embedding_norm = true;
    m.causal = false;
  }
  return m;
}

TEST_CASE("a random stack written in the layout of every family is read back bit for bit") {
  for (const Family& family : family_table()) {
    for (const bool head : {true, false}) {
      CAPTURE(family.name);
      ModelSpec wanted = plain_model(family.name);
      wanted.unembedding = head;
      const CheckpointLayout layout = layout_for(family, wanted);
      for (const Target& target : targets()) {
        const GeneratedWeights weights(*target.backend,
                                       {.model = layout.model,
                                        .init = {.scheme = InitScheme::lecun},
                                        .input = {.kind = InputKind::tokens, .path = {}}},
                                       target.dtype, 7);
        const TemporaryFolder folder;
        write_checkpoint(folder.path(), layout, *target.backend, weights, written_type(target.dtype));
        const Checkpoint again(folder.path());
        CHECK(&again.family() == &family);
        CHECK(again.model().unembedding == head);
        CHECK(again.warnings().size() == (head ? 0 : 1));
        const CheckpointWeights read(*target.backend, again, target.dtype);
        check_same_bits(std::string(family.name), logits_of(*target.backend, again.model(), read),
                        logits_of(*target.backend, layout.model, weights));
      }
    }
  }
}

TEST_CASE("a checkpoint written again in its own layout gives the same logits") {
  for (const std::string& name : fixture_names()) {
    CAPTURE(name);
    const Checkpoint checkpoint(fixture(name));
    const CheckpointWeights weights(truth(), checkpoint, DType::f64);
    const TemporaryFolder folder;
    write_checkpoint(folder.path(),
                     {checkpoint.config(), checkpoint.model(), checkpoint.map(), checkpoint.layer_scales()}, truth(),
                     weights, SafetensorsType::f64);
    const Checkpoint again(folder.path());
    const CheckpointWeights read(truth(), again, DType::f64);
    check_same_bits(name, logits_of(truth(), again.model(), read), logits_of(truth(), checkpoint.model(), weights));
  }
}

/// Returns the message of the ConfigError, or "accepted".
std::string rejection(std::string_view family, const ModelSpec& wanted) {
  try {
    (void)layout_for(*family_named(family), wanted);
    return "accepted";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST_CASE("options that a family cannot express are rejected with a message that names the key") {
  const auto check = [](std::string_view family, const std::string& message, const auto& edit) {
    ModelSpec wanted = plain_model(family);
    REQUIRE(rejection(family, wanted) == "accepted");
    edit(wanted);
    const std::string actual = rejection(family, wanted);
    CAPTURE(actual);
    CHECK(actual.find(message) != std::string::npos);
  };
  check("llama", "model.placement", [](ModelSpec& m) { m.placement = *find_placement("peri"); });
  check("llama", "model.placement", [](ModelSpec& m) { m.placement = *find_placement("depth-scaled"); });
  check("bert", "model.placement", [](ModelSpec& m) { m.placement = *find_placement("residual-dual"); });
  check("llama", "model.norm", [](ModelSpec& m) { m.norm = NormKind::layer; });
  check("llama", "model.final_norm", [](ModelSpec& m) { m.final_norm = false; });
  check("llama", "model.embedding_norm", [](ModelSpec& m) { m.embedding_norm = true; });
  check("llama", "model.qk_norm", [](ModelSpec& m) { m.qk_norm = QkNorm::head; });
  check("olmo2", "model.qk_norm", [](ModelSpec& m) { m.qk_norm = QkNorm::none; });
  check("llama", "model.v_norm", [](ModelSpec& m) { m.v_norm = true; });
  check("qwen3", "model.inner_norm", [](ModelSpec& m) { m.inner_norm = InnerNorm::down; });
  check("llama", "model.attention_gate", [](ModelSpec& m) { m.attention_gate = AttentionGate::head; });
  check("llama", "model.rope", [](ModelSpec& m) { m.rope = false; });
  check("gpt2", "model.rope", [](ModelSpec& m) { m.rope = true; });
  check("llama", "model.causal", [](ModelSpec& m) { m.causal = false; });
  check("llama", "hidden_act", [](ModelSpec& m) { m.mlp = MlpKind::relu; });
  check("gpt2", "model.mlp", [](ModelSpec& m) { m.mlp = MlpKind::swiglu; });
  check("gpt2", "model.head_dim", [](ModelSpec& m) { m.head_dim = 6; });
  check("opt", "model.norm_eps", [](ModelSpec& m) { m.norm_eps = 1e-3; });
  check("opt", "model.kv_heads", [](ModelSpec& m) { m.kv_heads = 1; });
  check("llama", "attention window = 3",
        [](ModelSpec& m) { m.attention.assign(2, {.scores = {.window = 3}, .rope_frequencies = {}}); });
  check("llama", "soft cap of logits = 30", [](ModelSpec& m) { m.head.soft_cap = 30.0; });
  check("llama", "scale of logits = 0.5", [](ModelSpec& m) { m.head.scale = 0.5; });
  check("llama", "embedding scale = 2", [](ModelSpec& m) { m.embedding.scale = 2.0; });
}

TEST_CASE("two different matrices cannot be written to one tied tensor") {
  const Checkpoint checkpoint(fixture("llama-tied"));
  const GeneratedWeights weights(truth(), token_stack(checkpoint.model()), DType::f64, 1);
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(write_checkpoint(folder.path(), {checkpoint.config(), checkpoint.model(), checkpoint.map()},
                                        truth(), weights, SafetensorsType::f64),
                       doctest::Contains("\"model.embed_tokens.weight\""), Error);
}

}  // namespace
}  // namespace periscope::testing
