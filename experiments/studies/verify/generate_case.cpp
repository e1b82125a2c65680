#include "experiments/studies/verify/bound_case.h"
#include "experiments/studies/verify/draw.h"

namespace periscope::verify {
namespace {

SublayerRule draw_rule(Draw& draw) {
  constexpr SublayerRule b_only{.norm_b = true}, a_c{.norm_a = true, .norm_c = true},
      all{.norm_a = true, .norm_b = true, .norm_c = true};
  SublayerRule rule = draw.of({pre, pre, peri, peri, peri, post, post, b_only, a_c, all});
  if (draw.chance(0.15)) {
    rule.alpha = draw.uniform(-2.0, 2.0);
    rule.beta = draw.uniform(-2.0, 2.0);
  }
  return rule;
}

void draw_norm(Draw& draw, BoundCase& c, const std::string& name) {
  const int width = c.width();
  const double scale = draw.chance(0.5) ? 1.0 : draw.magnitude(-6.0, 6.0);
  std::vector<double> gain(static_cast<std::size_t>(width), draw.chance(0.2) ? -scale : scale);
  if (draw.chance(0.5)) gain = draw.normals(width, scale);
  c.set(name + ".gain", std::move(gain));
  if (subtracts_mean(c.norm()) && draw.chance(0.5)) {
    c.set(name + ".bias", draw.normals(width, draw.magnitude(-3.0, 3.0)));
  }
}

/// Multiplies one feature of the input, or one hidden unit, by up to 1e6.
void make_massive(Draw& draw, BoundCase& c) {
  const int d = c.width();
  const double factor = draw.magnitude(0.0, 6.0);
  const bool is_feature = draw.chance(0.5);
  const int index = draw.integer(0, (is_feature ? d : c.units()) - 1);
  std::vector<double>& values = c.parameters.at(is_feature ? "x" : "up").values;
  for (int k = 0; k < static_cast<int>(values.size()); ++k) {
    if ((is_feature ? k % d : k / d) == index) values[static_cast<std::size_t>(k)] *= factor;
  }
}

}  // namespace

BoundCase generate_case(std::uint64_t seed, std::uint32_t id) {
  Draw draw({seed, id, Stream::verify_case});
  const SublayerRule rule = draw_rule(draw);
  const NormKind norm = draw.chance(0.35) ? NormKind::layer : NormKind::rms;
  const int width = draw.size(subtracts_mean(norm) ? 2 : 1, 64);
  const int units = draw.size(1, 64);
  const double u = draw.uniform();
  const double eps = u < 0.4 ? 0.0 : u < 0.6 ? 1e-6 : draw.magnitude(-12.0, 6.0);
  const int mlp =
      draw.chance(0.4) ? static_cast<int>(MlpKind::relu) : draw.integer(0, static_cast<int>(mlp_kind_names.size()) - 1);
  const bool final_norm = draw.chance(0.3);
  const bool unembedding = draw.chance(0.2);
  const int words = unembedding ? draw.size(2, 64) : width;
  BoundCase c = plain_case({.alpha = rule.alpha, .beta = rule.beta}, width);
  c.set("norm", {static_cast<double>(norm)});
  c.set("norm_eps", {eps});
  c.set("mlp", {static_cast<double>(mlp)});

  const int tokens = draw.chance(0.6) ? 1 : draw.integer(2, 4);
  // Half of the cases have moderate magnitudes, so that softmax is not always flat or saturated.
  const double largest = draw.chance(0.5) ? 6.0 : 0.5;
  const auto scale = [&] { return draw.magnitude(-largest, largest); };
  c.set("x", draw.normals(tokens * width, scale()), width);
  if (is_gated(c.mlp())) c.set("gate", draw.matrix(units, width, scale()), width);
  c.set("up", draw.matrix(units, width, scale()), width);
  c.set("down", draw.matrix(width, units, draw.chance(0.01) ? 0.0 : scale()), units);
  if (unembedding) c.set("unembedding", draw.matrix(words, width, scale()), width);
  if (rule.norm_a) draw_norm(draw, c, "norm_a");
  if (rule.norm_b) draw_norm(draw, c, "norm_b");
  if (rule.norm_c) draw_norm(draw, c, "norm_c");
  if (final_norm) draw_norm(draw, c, "final_norm");
  std::vector<double> labels;
  for (int t = 0; t < tokens; ++t) labels.push_back(draw.integer(0, words - 1));
  c.set("labels", std::move(labels));
  if (draw.chance(0.3)) make_massive(draw, c);
  if (draw.chance(0.3)) {
    if (is_gated(c.mlp())) c.set("gate_bias", draw.normals(units, draw.magnitude(-6.0, 6.0)));
    c.set("up_bias", draw.normals(units, draw.magnitude(-6.0, 6.0)));
    c.set("down_bias", draw.normals(width, draw.magnitude(-6.0, 6.0)));
  }
  return c;
}

}  // namespace periscope::verify
