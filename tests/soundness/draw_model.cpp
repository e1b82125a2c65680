#include <array>
#include <cmath>
#include <numeric>

#include "tests/soundness/specimen.h"

namespace periscope::soundness {
namespace {

/// Options that all models of a family share.
struct Family {
  std::string name;
  const char* placement;
  NormKind norm;
  MlpKind mlp;
  bool rope;
};
const std::array families{
    Family{"llama", "pre", NormKind::rms, MlpKind::swiglu, true},
    Family{"mistral", "pre", NormKind::rms, MlpKind::swiglu, true},
    Family{"qwen2", "pre", NormKind::rms, MlpKind::swiglu, true},
    Family{"qwen3", "pre", NormKind::rms, MlpKind::swiglu, true},
    Family{"gpt2", "pre", NormKind::layer, MlpKind::gelu_tanh, false},
    Family{"gemma2", "peri", NormKind::rms, MlpKind::geglu_tanh, true},
    Family{"gemma3", "peri", NormKind::rms, MlpKind::geglu_tanh, true},
    Family{"olmo2", "b-only", NormKind::rms, MlpKind::swiglu, true},
    Family{"bert", "post", NormKind::layer, MlpKind::gelu, false},
    Family{"opt", "pre", NormKind::layer, MlpKind::relu, false},
    Family{"opt-post", "post", NormKind::layer, MlpKind::relu, false},
    Family{"opt-projected", "pre", NormKind::layer, MlpKind::relu, false},
    Family{"any", "none", NormKind::rms, MlpKind::swiglu, true},  // random options, twice as likely
    Family{"any", "none", NormKind::rms, MlpKind::swiglu, true},
};

void set_sizes(verify::Draw& draw, ModelSpec& m) {
  m.layers = draw.chance(0.6) ? 1 : draw.integer(2, 3);
  m.width = draw.size(m.norm == NormKind::layer ? 2 : 1, 24);
  m.heads = draw.integer(1, 4);
  m.kv_heads = std::gcd(m.heads, draw.integer(1, 4));
  m.head_dim = m.rope ? 2 * draw.size(1, 4) : draw.size(1, 8);
  m.mlp_width = draw.size(1, 24);
  m.vocab = draw.integer(2, 12);
}

void set_scores(verify::Draw& draw, ModelSpec& m, double cap_chance, double window_chance) {
  for (int l = 0; l < m.layers; ++l) {
    AttentionRule rule;
    if (draw.chance(0.4)) rule.scores.scale = draw.magnitude(-3.0, 2.0);
    if (draw.chance(cap_chance)) rule.scores.soft_cap = draw.magnitude(-1.0, 2.5);
    if (m.causal && draw.chance(window_chance)) rule.scores.window = draw.integer(1, 4);
    if (m.rope && draw.chance(0.3)) rule.rope_frequencies = rope_frequencies(m.head_dim, draw.magnitude(0.5, 6.0));
    if (m.rope && draw.chance(0.2)) rule.rope_scale = draw.magnitude(-1.0, 1.0);
    if (!rule.rope_frequencies.empty() && draw.chance(0.3)) rule.rope_frequencies.back() = 0.0;
    m.attention.push_back(rule);
  }
}

/// Sets heads and factors of layers, which differ between layers.
void set_layers(verify::Draw& draw, ModelSpec& m) {
  for (AttentionRule& rule : m.attention) {
    rule.head_dim = m.rope ? 2 * draw.size(1, 4) : draw.size(1, 8);
    rule.kv_heads = std::gcd(m.heads, draw.integer(1, 4));
    if (!rule.rope_frequencies.empty()) rule.rope_frequencies = rope_frequencies(rule.head_dim, 100.0);
    m.layer_scales.push_back(draw.uniform(-2.0, 2.0));
  }
}

void set_positions(verify::Draw& draw, ModelSpec& m, int offset, int tokens) {
  m.embedding.position_offset = offset;
  m.embedding.positions = offset + tokens + draw.integer(0, 2);
}

void draw_options(verify::Draw& draw, ModelSpec& m) {
  if (draw.chance(0.6)) {
    const auto table = placement_table();
    m.placement = table[static_cast<std::size_t>(draw.integer(0, static_cast<int>(table.size()) - 1))];
  } else {
    m.placement = custom_placement({.norm_a = draw.chance(0.5),
                                    .norm_b = draw.chance(0.5),
                                    .norm_c = draw.chance(0.5),
                                    .alpha = draw.uniform(-2.0, 2.0),
                                    .beta = draw.uniform(-2.0, 2.0)});
  }
  m.norm = draw.of(
      {NormKind::rms, NormKind::rms, NormKind::layer, NormKind::layer, NormKind::dyt, NormKind::derf, NormKind::l2});
  m.mlp = static_cast<MlpKind>(draw.integer(0, static_cast<int>(mlp_kind_names.size()) - 1));
  m.rope = draw.chance(0.5);
  m.causal = draw.chance(0.7);
  m.qk_norm = draw.of({QkNorm::none, QkNorm::head, QkNorm::full});
  m.embedding_norm = draw.chance(0.4);
  m.embedding.scale = draw.chance(0.5) ? 1.0 : draw.uniform(-3.0, 3.0);
  m.v_norm = draw.chance(0.3);
  m.inner_norm = draw.of({InnerNorm::none, InnerNorm::none, InnerNorm::o, InnerNorm::down, InnerNorm::both});
  m.attention_gate = draw.of({AttentionGate::none, AttentionGate::none, AttentionGate::head, AttentionGate::channel});
}

}  // namespace

std::vector<std::string> specimen_families() {
  std::vector<std::string> names;
  for (const Family& family : families) names.push_back(family.name);
  return names;
}

void draw_model(verify::Draw& draw, Specimen& s) {
  ModelSpec& m = s.model;
  const Family& family = families[static_cast<std::size_t>(draw.integer(0, static_cast<int>(families.size()) - 1))];
  // Long inputs, where softmax denominators stagnate in narrow formats, are rare because they are slow.
  s.tokens = draw.chance(0.02) ? draw.integer(20, 150) : draw.integer(1, 6);
  const std::string& f = s.family = family.name;
  m.placement = *find_placement(family.placement);
  m.norm = family.norm;
  m.mlp = family.mlp;
  m.rope = family.rope;
  if (f == "qwen3" || f == "gemma3") m.qk_norm = QkNorm::head;
  if (f == "olmo2") m.qk_norm = QkNorm::full;
  if (f == "bert") {
    m.causal = false;
    m.embedding_norm = true;
    m.head.transform = true;
  }
  if (f == "gemma2" || f == "gemma3") m.embedding.scale = std::sqrt(draw.integer(1, 24));
  if (f == "any") draw_options(draw, m);
  m.final_norm = f == "any" && draw.chance(0.3) ? draw.chance(0.5) : m.placement.defaults.final_norm;
  set_sizes(draw, m);
  m.norm_eps = draw.of({0.0, 1e-300, 1e-12, 1e-6, 1e-5, 1e-5, 0.1});
  set_scores(draw, m, f == "gemma2" || f == "any" ? 0.5 : 0.0,
             f == "mistral" || f == "gemma3" || f == "any" ? 0.4 : 0.0);
  if (f == "any" && draw.chance(0.3)) set_layers(draw, m);
  if (f == "gemma2" || (f == "any" && draw.chance(0.3))) m.head.soft_cap = draw.magnitude(-1.0, 2.5);
  if (f == "any" && draw.chance(0.3)) m.head.scale = draw.magnitude(-1.0, 1.0);
  if (f == "gpt2" || f == "bert" || (f == "any" && draw.chance(0.3))) set_positions(draw, m, 0, s.tokens);
  if (f.starts_with("opt")) set_positions(draw, m, 2, s.tokens);
  if (f == "bert") m.embedding.token_types = draw.integer(1, 2);
  if (f == "opt-projected" || (f == "any" && draw.chance(0.2))) m.embedding.width = draw.integer(2, 12);
  if (f == "any" && draw.chance(0.2) && m.embedding_width() >= 2) m.head.transform = true;
  if (f == "any" && draw.chance(0.1)) m.unembedding = false;
  if (f != "any" || !draw.chance(0.4)) return;
  // Input vectors may have any size before an embedding norm, else their entries are bounded.
  m.embedding.positions = m.embedding.token_types = m.embedding.position_offset = 0;
  const bool bounded = !m.embedding_norm || draw.chance(0.3);
  s.domain = {.tokens = false, .largest = bounded ? draw.magnitude(-2.0, 2.0) : theory::infinity};
}

}  // namespace periscope::soundness
