
#include "experiments/core/stacks/draw.h"
#include "experiments/studies/verify/bound_case.h"

namespace periscope::verify {
namespace {

SublayerRule draw_rule(stacks::Draw& draw) {
  constexpr SublayerRule pre{.norm_a = true}, peri{.norm_a = true, .norm_b = true}, b_only{.norm_b = true},
      post{.norm_c = true}, a_c{.norm_a = true, .norm_c = true}, all{.norm_a = true, .norm_b = true, .norm_c = true};
  constexpr SublayerRule rules[] = {pre, pre, peri, peri, peri, post, post, b_only, a_c, all};
  SublayerRule rule = rules[draw.whole(0, 9)];
  if (draw.chance(0.15)) {
    rule.alpha = draw.uniform(-2.0, 2.0);
    rule.beta = draw.uniform(-2.0, 2.0);
  }
  return rule;
}

CaseNorm draw_norm(stacks::Draw& draw, const ModelSpec& m) {
  const double scale = draw.chance(0.5) ? 1.0 : draw.magnitude(-6.0, 6.0);
  CaseNorm norm{std::vector<double>(static_cast<std::size_t>(m.width), draw.chance(0.2) ? -scale : scale), {}};
  if (draw.chance(0.5)) norm.gain = draw.normals(m.width, scale);
  if (m.norm == NormKind::layer && draw.chance(0.5)) norm.bias = draw.normals(m.width, draw.magnitude(-3.0, 3.0));
  return norm;
}

double draw_eps(stacks::Draw& draw) {
  const double u = draw.uniform();
  if (u < 0.4) return 0.0;
  return u < 0.6 ? 1e-6 : draw.magnitude(-12.0, 6.0);
}

/// Half of the cases have tame magnitudes, so that softmax is neither flat nor saturated in all of them.
double draw_scale(stacks::Draw& draw, bool wild) {
  return wild ? draw.magnitude(-6.0, 6.0) : draw.magnitude(-0.5, 0.5);
}

void draw_biases(stacks::Draw& draw, BoundCase& c) {
  const int units = c.model.mlp_width;
  if (is_gated(c.model.mlp)) c.gate_bias = draw.normals(units, draw.magnitude(-6.0, 6.0));
  c.up_bias = draw.normals(units, draw.magnitude(-6.0, 6.0));
  c.down_bias = draw.normals(c.model.width, draw.magnitude(-6.0, 6.0));
}

/// One feature of the input or one hidden unit, up to 1e6 times larger than the rest.
void make_massive(stacks::Draw& draw, BoundCase& c) {
  const int d = c.model.width;
  const double factor = draw.magnitude(0.0, 6.0);
  if (draw.chance(0.5)) {
    const int feature = draw.whole(0, d - 1);
    for (int t = 0; t < c.tokens(); ++t) c.x[static_cast<std::size_t>(t * d + feature)] *= factor;
  } else {
    const int unit = draw.whole(0, c.model.mlp_width - 1);
    for (int j = 0; j < d; ++j) c.up[static_cast<std::size_t>(unit * d + j)] *= factor;
  }
}

}  // namespace

BoundCase generate_case(std::uint64_t seed, std::uint32_t id) {
  stacks::Draw draw({seed, id, Stream::verify_case});
  const SublayerRule rule = draw_rule(draw);
  const NormKind norm = draw.chance(0.35) ? NormKind::layer : NormKind::rms;
  const int width = draw.size(norm == NormKind::layer ? 2 : 1, 64);
  BoundCase c;
  c.model = case_model(rule, width, draw.size(1, 64));
  ModelSpec& m = c.model;
  m.norm = norm;
  m.norm_eps = draw_eps(draw);
  m.mlp = draw.chance(0.4) ? MlpKind::relu
                           : static_cast<MlpKind>(draw.whole(0, static_cast<int>(mlp_kind_names.size()) - 1));
  m.final_norm = draw.chance(0.3);
  m.unembedding = draw.chance(0.2);
  if (m.unembedding) m.vocab = draw.size(2, 64);

  const int tokens = draw.chance(0.6) ? 1 : draw.whole(2, 4);
  const bool wild = draw.chance(0.5);
  c.x = draw.normals(tokens * width, draw_scale(draw, wild));
  if (is_gated(m.mlp)) c.gate = draw.matrix(m.mlp_width, width, draw_scale(draw, wild));
  c.up = draw.matrix(m.mlp_width, width, draw_scale(draw, wild));
  c.down = draw.matrix(width, m.mlp_width, draw.chance(0.01) ? 0.0 : draw_scale(draw, wild));
  if (m.unembedding) c.unembedding = draw.matrix(m.vocab, width, draw_scale(draw, wild));
  if (rule.norm_a) c.a = draw_norm(draw, m);
  if (rule.norm_b) c.b = draw_norm(draw, m);
  if (rule.norm_c) c.c = draw_norm(draw, m);
  if (m.final_norm) c.final = draw_norm(draw, m);
  for (int t = 0; t < tokens; ++t) c.labels.push_back(draw.whole(0, c.classes() - 1));
  if (draw.chance(0.3)) make_massive(draw, c);
  if (draw.chance(0.3)) draw_biases(draw, c);
  return c;
}

}  // namespace periscope::verify
