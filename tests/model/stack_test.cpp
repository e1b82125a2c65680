#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/model/plain_stack.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/tolerances.h"

namespace periscope::testing {
namespace {

std::vector<Target> truth_and_targets() {
  std::vector<Target> all{truth_target()};
  all.insert(all.end(), targets().begin(), targets().end());
  return all;
}

double allowed(const ModelSpec& m, DType dtype) {
  return stack_error(m.sublayers(), std::max({m.width, m.query_width(), m.mlp_width}), dtype);
}

/// Runs the spec on every backend, with random gains and biases, and compares every signal with the plain loops.
void check_against_plain_loops(const std::string& what, const StackSpec& spec) {
  validate(spec);
  for (const Target& target : truth_and_targets()) {
    const Backend& ops = *target.backend;
    const GeneratedWeights drawn(ops, spec, target.dtype, 3);
    const EditedWeights weights(drawn, same_matrix, random_norms(ops));
    const Tensor input = gaussian_input(ops, spec, target.dtype, 3);
    const RecordedStack actual = record_stack({.ops = ops, .model = spec.model, .weights = weights}, input);
    const auto width = static_cast<std::size_t>(spec.model.width);
    const PlainRecord expected = plain_stack(spec.model, ops, weights, rows_of(ops.to_host(input), width));
    const double relative = allowed(spec.model, target.dtype);
    const std::string where = target.name() + " " + what;
    REQUIRE(actual.site.size() == expected.site.size());
    check_close_to_scale(where + ", input", actual.input, flat(expected.input), relative);
    for (const auto& [place, x] : expected.site) {
      const auto& [sublayer, site] = place;
      check_close_to_scale(where + ", sublayer " + std::to_string(sublayer) + " " + std::string(name_of(site)),
                           actual.at(sublayer, site), flat(x), relative);
    }
    check_close_to_scale(where + ", stream", actual.stream, flat(expected.stream), relative);
    check_close_to_scale(where + ", output", actual.output, flat(expected.output), relative);
  }
}

TEST_CASE("every placement of T1's table, with its own final norm and with the other choice") {
  for (const Placement& placement : placement_table()) {
    // Plain loops have no norms inside modules of their own accord, no channel scales and no streams in parts.
    constexpr std::array<std::string_view, 5> others{"hybridnorm", "sub-ln", "ngpt", "layer-scale", "hyper"};
    if (std::ranges::find(others, placement.name) != others.end()) continue;
    StackSpec spec = placed(tiny_stack(), placement.name);
    spec.model.layers = 4;  // Mix-LN: one Post layer, three Pre
    check_against_plain_loops(std::string(placement.name), spec);
    spec.model.final_norm = !spec.model.final_norm;
    check_against_plain_loops(std::string(placement.name) + ", final norm turned", spec);
  }
}

TEST_CASE("every free-form placement: A, B, C on and off, with scales") {
  for (int norms = 0; norms < 8; ++norms) {
    StackSpec spec = tiny_stack();
    spec.model.placement = custom_placement({.norm_a = (norms & 1) != 0,
                                             .norm_b = (norms & 2) != 0,
                                             .norm_c = (norms & 4) != 0,
                                             .alpha = 0.7,
                                             .beta = 1.3});
    check_against_plain_loops("free form " + std::to_string(norms), spec);
  }
}

TEST_CASE("two streams with scales: both add beta times the branch, alpha is the Post stream's alone") {
  StackSpec spec = placed(tiny_stack(), "residual-dual");
  spec.model.placement.rule = nullptr;
  spec.model.placement.custom =
      std::make_shared<const FreeForm>(FreeForm{{.norm_a = true, .norm_c = true, .alpha = 0.7, .beta = 1.3}});
  check_against_plain_loops("two streams with scales", spec);
}

TEST_CASE("every norm of model.norm, with and without an embedding norm, with eps that is felt") {
  for (std::size_t number = 0; number < norm_kind_names.size(); ++number) {
    const auto kind = static_cast<NormKind>(number);
    for (const bool embedding_norm : {false, true}) {
      for (const double eps : {0.0, 0.3}) {
        for (const char* placement : {"peri", "a+c", "residual-dual"}) {
          StackSpec spec = placed(tiny_stack(), placement);
          spec.model.norm = kind;
          spec.model.norm_eps = eps;
          spec.model.embedding_norm = embedding_norm;
          check_against_plain_loops(std::string(norm_kind_names[static_cast<std::size_t>(kind)]) + " " + placement,
                                    spec);
        }
      }
    }
  }
}

TEST_CASE("attention: QK-norm, RoPE and mask in every combination, for equal, grouped and single heads") {
  for (const QkNorm qk_norm : {QkNorm::none, QkNorm::head, QkNorm::full}) {
    for (const bool rope : {false, true}) {
      for (const bool causal : {false, true}) {
        for (const int kv_heads : {1, 2, 4}) {
          StackSpec spec = tiny_stack();
          spec.model.qk_norm = qk_norm;
          spec.model.rope = rope;
          spec.model.causal = causal;
          spec.model.kv_heads = kv_heads;
          check_against_plain_loops("qk_norm " + std::string(qk_norm_names[static_cast<std::size_t>(qk_norm)]) +
                                        (rope ? " rope" : "") + (causal ? " causal" : "") + " kv " +
                                        std::to_string(kv_heads),
                                    spec);
        }
      }
    }
  }
}

TEST_CASE("norms and gates inside modules, in every combination") {
  for (const bool v_norm : {false, true}) {
    for (std::size_t inner = 0; inner < inner_norm_names.size(); ++inner) {
      for (std::size_t gate = 0; gate < attention_gate_names.size(); ++gate) {
        StackSpec spec = placed(tiny_stack(), "pre");
        spec.model.norm = gate == 1 ? NormKind::layer : NormKind::rms;
        spec.model.qk_norm = inner == 1 ? QkNorm::head : QkNorm::none;
        spec.model.mlp = inner == 2 ? MlpKind::relu : MlpKind::swiglu;
        spec.model.v_norm = v_norm;
        spec.model.inner_norm = static_cast<InnerNorm>(inner);
        spec.model.attention_gate = static_cast<AttentionGate>(gate);
        check_against_plain_loops(fmt::format("{}inner {} gate {}", v_norm ? "V-norm " : "", inner_norm_names[inner],
                                              attention_gate_names[gate]),
                                  spec);
      }
    }
  }
}

TEST_CASE("every MLP, at hidden widths below and above the width") {
  for (std::size_t kind = 0; kind < mlp_kind_names.size(); ++kind) {
    for (const int mlp_width : {1, 33}) {
      StackSpec spec = placed(tiny_stack(), "pre");
      spec.model.mlp = static_cast<MlpKind>(kind);
      spec.model.mlp_width = mlp_width;
      check_against_plain_loops(std::string(mlp_kind_names[kind]), spec);
    }
  }
}

TEST_CASE("odd shapes: one layer, one token, one head, a width that no vector divides") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.layers = 1;
  spec.model.width = 33;
  spec.model.heads = 1;
  spec.model.kv_heads = 1;
  spec.model.head_dim = 2;
  for (const int tokens : {1, 2, 31}) {
    spec.input.tokens = tokens;
    check_against_plain_loops("tokens " + std::to_string(tokens), spec);
  }
}

}  // namespace
}  // namespace periscope::testing
