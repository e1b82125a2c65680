#include "tests/support/stack_table.h"

#include <fmt/format.h>

#include <memory>

#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

void add_placements(std::vector<NamedStack>& all) {
  for (const Placement& placement : placement_table()) {
    StackSpec spec = placed(tiny_stack(), placement.name);
    if (placement.name == "mix") spec.model.layers = 4;  // one Post-LN layer, three Pre-LN layers
    all.push_back({std::string(placement.name), spec});
    spec.model.final_norm = !spec.model.final_norm;
    all.push_back({fmt::format("{}, final norm toggled", placement.name), spec});
  }
  for (int norms = 0; norms < 8; ++norms) {
    StackSpec spec = tiny_stack();
    spec.model.placement = custom_placement({.norm_a = (norms & 1) != 0,
                                             .norm_b = (norms & 2) != 0,
                                             .norm_c = (norms & 4) != 0,
                                             .alpha = 0.7,
                                             .beta = -1.3});
    all.push_back({fmt::format("free form {}", norms), spec});
  }
  StackSpec two = placed(tiny_stack(), "residual-dual");
  two.model.placement.rule = nullptr;
  two.model.placement.custom =
      std::make_shared<const FreeForm>(FreeForm{{.norm_a = true, .norm_c = true, .alpha = 0.7, .beta = 1.3}});
  all.push_back({"two streams with scales", two});
}

void add_norms(std::vector<NamedStack>& all) {
  for (std::size_t kind = 0; kind < norm_kind_names.size(); ++kind) {
    for (const bool embedding_norm : {false, true}) {
      for (const char* placement : {"peri", "a+c", "residual-dual"}) {
        StackSpec spec = placed(tiny_stack(), placement);
        spec.model.norm = static_cast<NormKind>(kind);
        spec.model.norm_eps = embedding_norm ? 0.3 : 0.0;
        spec.model.embedding_norm = embedding_norm;
        all.push_back({fmt::format("{} {} eps {}", norm_kind_names[kind], placement, spec.model.norm_eps), spec});
      }
    }
  }
}

void add_attention(std::vector<NamedStack>& all) {
  for (const QkNorm qk_norm : {QkNorm::none, QkNorm::head, QkNorm::full}) {
    for (const bool rope : {false, true}) {
      for (const bool causal : {false, true}) {
        for (const int kv_heads : {1, 2, 4}) {
          StackSpec spec = tiny_stack();
          spec.model.layers = 1;
          spec.model.qk_norm = qk_norm;
          spec.model.rope = rope;
          spec.model.causal = causal;
          spec.model.kv_heads = kv_heads;
          all.push_back({fmt::format("qk_norm {}{}{} kv {}", qk_norm_names[static_cast<std::size_t>(qk_norm)],
                                     rope ? " rope" : "", causal ? " causal" : "", kv_heads),
                         spec});
        }
      }
    }
  }
}

void add_inside_modules(std::vector<NamedStack>& all) {
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
        all.push_back({fmt::format("{}inner {} gate {}", v_norm ? "V-norm " : "", inner_norm_names[inner],
                                   attention_gate_names[gate]),
                       spec});
      }
    }
  }
}

void add_mlps(std::vector<NamedStack>& all) {
  for (std::size_t kind = 0; kind < mlp_kind_names.size(); ++kind) {
    StackSpec spec = placed(tiny_stack(), "pre");
    spec.model.mlp = static_cast<MlpKind>(kind);
    spec.model.mlp_width = kind % 2 == 0 ? 33 : 10;
    all.push_back({std::string(mlp_kind_names[kind]), spec});
  }
}

}  // namespace

std::vector<NamedStack> stacks_of_every_kind() {
  std::vector<NamedStack> all;
  add_placements(all);
  add_norms(all);
  add_attention(all);
  add_inside_modules(all);
  add_mlps(all);
  return all;
}

}  // namespace periscope::testing
