#include "sim/model/parameters.h"

#include "tests/support/doctest.h"

#include <algorithm>

#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

using Names = std::vector<std::string>;

Names names_of(const std::vector<ParameterId>& ids) {
  Names names;
  for (const ParameterId& id : ids) names.push_back(name_of(id));
  return names;
}

TEST_CASE("matrices: gate, embedding and unembedding only where the stack has them") {
  StackSpec spec = tiny_stack();
  spec.model.layers = 1;
  spec.input.kind = InputKind::tokens;
  CHECK(names_of(matrices_of(spec)) ==
        Names{"embedding.weight", "layers.0.attention.q.weight", "layers.0.attention.k.weight",
              "layers.0.attention.v.weight", "layers.0.attention.o.weight", "layers.0.mlp.gate.weight",
              "layers.0.mlp.up.weight", "layers.0.mlp.down.weight", "unembedding.weight"});
  spec.input.kind = InputKind::gaussian;
  spec.model.unembedding = false;
  spec.model.mlp = MlpKind::relu;
  spec.model.layers = 2;
  const Names names = names_of(matrices_of(spec));
  CHECK(names.size() == 12);
  CHECK(names.front() == "layers.0.attention.q.weight");
  CHECK(names.back() == "layers.1.mlp.down.weight");
  CHECK(std::ranges::none_of(names, [](const std::string& n) { return n.find("gate") != std::string::npos; }));
}

TEST_CASE("norms: those of the placement, of the attention and of the stack") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.layers = 1;
  spec.model.embedding_norm = true;
  spec.model.qk_norm = QkNorm::full;
  CHECK(names_of(gains_of(spec.model)) == Names{"embedding_norm.gain", "layers.0.attention.norm_a.gain",
                                                "layers.0.attention.q_norm.gain", "layers.0.attention.k_norm.gain",
                                                "layers.0.attention.norm_b.gain", "layers.0.mlp.norm_a.gain",
                                                "layers.0.mlp.norm_b.gain", "final_norm.gain"});
  CHECK(names_of(gains_of(placed(tiny_stack(), "none").model)).empty());
}

TEST_CASE("norms and the gate inside modules: the gate of an attention is called as that of an MLP") {
  StackSpec spec = placed(tiny_stack(), "none");
  spec.model.layers = 1;
  spec.model.v_norm = true;
  spec.model.inner_norm = InnerNorm::both;
  spec.model.attention_gate = AttentionGate::head;
  CHECK(names_of(gains_of(spec.model)) ==
        Names{"layers.0.attention.v_norm.gain", "layers.0.attention.inner_norm.gain", "layers.0.mlp.inner_norm.gain"});
  CHECK(name_of(matrix_id(0, Weight::attention_gate)) == "layers.0.attention.gate.weight");
  CHECK(name_of(matrix_id(0, Weight::gate)) == "layers.0.mlp.gate.weight");
  CHECK(shape_of(spec.model, Weight::attention_gate).fan_out == spec.model.heads);
  spec.model.attention_gate = AttentionGate::channel;
  CHECK(shape_of(spec.model, Weight::attention_gate).fan_out == spec.model.query_width());
  spec.model.norm = NormKind::layer;
  for (const ParameterId& id : all_parameters_of(spec)) {
    if (is_module_norm(id.weight)) CHECK(id.part == ParameterId::Part::gain);
  }
}

TEST_CASE("Mix-LN has norm C below and norm A above") {
  StackSpec spec = placed(tiny_stack(), "mix");
  spec.model.layers = 4;
  CHECK(names_of(gains_of(spec.model)) ==
        Names{"layers.0.attention.norm_c.gain", "layers.0.mlp.norm_c.gain", "layers.1.attention.norm_a.gain",
              "layers.1.mlp.norm_a.gain", "layers.2.attention.norm_a.gain", "layers.2.mlp.norm_a.gain",
              "layers.3.attention.norm_a.gain", "layers.3.mlp.norm_a.gain", "final_norm.gain"});
}

}  // namespace
TEST_CASE("DyT and Derf have a gain, a bias and an alpha, their QK-norms a gain alone") {
  for (const NormKind kind : {NormKind::dyt, NormKind::derf}) {
    StackSpec spec = placed(tiny_stack(), "pre");
    spec.model.layers = 1;
    spec.model.norm = kind;
    spec.model.qk_norm = QkNorm::head;
    Names names;
    for (const ParameterId& id : all_parameters_of(spec)) {
      if (is_norm(id.weight)) names.push_back(name_of(id));
    }
    CHECK(names == Names{"layers.0.attention.norm_a.gain", "layers.0.attention.norm_a.bias",
                         "layers.0.attention.norm_a.alpha", "layers.0.attention.q_norm.gain",
                         "layers.0.attention.k_norm.gain", "layers.0.mlp.norm_a.gain", "layers.0.mlp.norm_a.bias",
                         "layers.0.mlp.norm_a.alpha", "final_norm.gain", "final_norm.bias", "final_norm.alpha"});
    const GeneratedWeights weights(truth(), spec, DType::f64, 1);
    CHECK(truth().to_host(parameter_of(weights, spec.model, alpha_of(gain_id(0, Weight::norm_a)))) ==
          std::vector<double>{spec.model.norm_alpha});
    CHECK(parameter_of(weights, spec.model, alpha_of(gain_id(0, Weight::q_norm))).empty());
  }
}

}  // namespace periscope::testing
