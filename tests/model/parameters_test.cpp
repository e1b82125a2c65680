#include "sim/model/parameters.h"

#include "tests/support/doctest.h"

#include <functional>

#include "sim/model/resident_weights.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

using Names = std::vector<std::string>;

struct Row {
  std::string_view placement;
  int layers;
  std::function<void(ModelSpec&)> edit;
  Names expected;  ///< parameters that are not matrices
};

TEST_CASE("norm parameters are the gains, biases and alphas of placement, modules and stack, in order") {
  const Row rows[] = {
      {"none", 2, [](ModelSpec&) {}, {}},
      {"peri",
       1,
       [](ModelSpec& m) { m.embedding_norm = true, m.qk_norm = QkNorm::full; },
       {"embedding_norm.gain", "layers.0.attention.norm_a.gain", "layers.0.attention.q_norm.gain",
        "layers.0.attention.k_norm.gain", "layers.0.attention.norm_b.gain", "layers.0.mlp.norm_a.gain",
        "layers.0.mlp.norm_b.gain", "final_norm.gain"}},
      {"none",
       1,
       [](ModelSpec& m) { m.norm = NormKind::layer, m.v_norm = true, m.inner_norm = InnerNorm::both; },
       {"layers.0.attention.v_norm.gain", "layers.0.attention.inner_norm.gain", "layers.0.mlp.inner_norm.gain"}},
      {"pre",
       1,
       [](ModelSpec& m) { m.norm = NormKind::layer, m.qk_norm = QkNorm::head; },
       {"layers.0.attention.norm_a.gain", "layers.0.attention.norm_a.bias", "layers.0.attention.q_norm.gain",
        "layers.0.attention.k_norm.gain", "layers.0.mlp.norm_a.gain", "layers.0.mlp.norm_a.bias", "final_norm.gain",
        "final_norm.bias"}},
      {"post",
       1,
       [](ModelSpec& m) { m.norm = NormKind::dyt, m.qk_norm = QkNorm::head; },
       {"layers.0.attention.q_norm.gain", "layers.0.attention.k_norm.gain", "layers.0.attention.norm_c.gain",
        "layers.0.attention.norm_c.bias", "layers.0.attention.norm_c.alpha", "layers.0.mlp.norm_c.gain",
        "layers.0.mlp.norm_c.bias", "layers.0.mlp.norm_c.alpha"}},
      {"mix",
       4,
       [](ModelSpec&) {},
       {"layers.0.attention.norm_c.gain", "layers.0.mlp.norm_c.gain", "layers.1.attention.norm_a.gain",
        "layers.1.mlp.norm_a.gain", "layers.2.attention.norm_a.gain", "layers.2.mlp.norm_a.gain",
        "layers.3.attention.norm_a.gain", "layers.3.mlp.norm_a.gain", "final_norm.gain"}}};
  for (const Row& row : rows) {
    INFO("row.placement := ", row.placement, ", row.layers := ", row.layers);
    StackSpec spec = placed(tiny_stack(), row.placement);
    spec.model.layers = row.layers;
    row.edit(spec.model);
    Names names;
    for (const ParameterId& id : all_parameters_of(spec)) {
      if (id.part != ParameterId::Part::matrix) names.push_back(name_of(id));
    }
    CHECK(names == row.expected);
  }
}

TEST_CASE("DyT has the initial alpha norm_alpha; QK-norms have no alpha") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.model.norm = NormKind::dyt;
  spec.model.qk_norm = QkNorm::head;
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  CHECK(truth().to_host(parameter_of(weights, spec.model, alpha_of(gain_id(0, Weight::norm_a)))) ==
        std::vector<double>{spec.model.norm_alpha});
  CHECK(parameter_of(weights, spec.model, alpha_of(gain_id(0, Weight::q_norm))).empty());
}

TEST_CASE("resident weights: fetch returns a replaced parameter") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.norm = NormKind::layer;
  spec.model.qk_norm = QkNorm::head;
  spec.model.embedding_norm = true;
  spec.input.kind = InputKind::tokens;
  ResidentWeights resident(spec, GeneratedWeights(truth(), spec, DType::f64, 4));
  for (const ParameterId& id : all_parameters_of(spec)) {
    Tensor& parameter = resident.parameters().at(id);
    const Tensor other = truth().constant(parameter.rows(), parameter.cols(), DType::f64, 7.0);
    parameter = other;
    CHECK(parameter_of(resident, spec.model, id).same_as(other));
  }
}

}  // namespace
}  // namespace periscope::testing
