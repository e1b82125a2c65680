#include "tests/certify/any_model.h"

namespace periscope::testing {

StackSpec any_model() {
  StackSpec spec = any_stack();
  ModelSpec& m = spec.model;
  m.mlp = any_of({MlpKind::relu, MlpKind::gelu, MlpKind::silu, MlpKind::gelu_tanh, MlpKind::swiglu, MlpKind::geglu,
                  MlpKind::geglu_tanh});
  m.norm_eps = any_of({1e-12, 1e-5, 0.3});
  m.embedding_norm = any_of({false, true});
  m.v_norm = any_of({false, true});
  m.inner_norm = any_of({InnerNorm::none, InnerNorm::o, InnerNorm::down, InnerNorm::both});
  m.attention_gate = any_of({AttentionGate::none, AttentionGate::head, AttentionGate::channel});
  m.vocab = any_int(2, 30);
  m.embedding.scale = any_number(-2.0, 2.0);
  if (any_of({false, true})) m.embedding.width = any_int(3, 12);
  if (any_of({false, true})) {
    m.embedding.position_offset = any_int(0, 3);
    m.embedding.positions = spec.input.tokens + m.embedding.position_offset;
    m.embedding.token_types = any_int(0, 2);
  }
  m.head = {.transform = any_of({false, true}), .soft_cap = any_of({0.0, 1.5})};
  if (m.embedding_width() < 2) m.head.transform = false;
  for (int l = 0; l < m.layers; ++l) {
    m.attention.push_back({.scores = {.scale = any_of({0.0, 0.7}),
                                      .soft_cap = any_of({0.0, 2.0}),
                                      .window = m.causal ? any_of({0, 2}) : 0},
                           .rope_frequencies = {}});
  }
  if (any_of({false, true})) {
    const auto table = placement_table();
    m.placement = table[static_cast<std::size_t>(any_int(0, static_cast<int>(table.size()) - 1))];
  } else {
    m.placement = custom_placement({.norm_a = any_of({false, true}),
                                    .norm_b = any_of({false, true}),
                                    .norm_c = any_of({false, true}),
                                    .alpha = any_number(-2.0, 2.0),
                                    .beta = any_number(-2.0, 2.0)});
  }
  m.final_norm = any_of({false, true});
  return spec;
}

}  // namespace periscope::testing
