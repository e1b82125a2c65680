#include "experiments/core/judge/gradient_allowance.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace periscope::judge {
namespace {

constexpr double without_norms = 3.0;
constexpr double without_norms_overlap = 4.0;
constexpr double steps_inside = 4.0;
constexpr double outside_attention = 0.25;

bool has_norms(const ModelSpec& model) {
  for (int s = 0; s < model.steps(); ++s) {
    const Step step = model.step(s);
    const auto has_norm = [](const Branch& b) { return b.norm_a || b.norm_b; };
    if (std::ranges::any_of(step.branches, has_norm) || std::ranges::count(step.norm_c, true) > 0) return true;
  }
  return false;
}

}  // namespace

double mean_keys(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  const int tokens = spec.input.tokens;
  if (!m.causal) return tokens;
  double most = 0.0;
  for (int layer = 0; layer < m.layers; ++layer) {
    const int window = m.scores_at(layer).window;
    double inverse = 0.0;
    for (int t = 1; t <= tokens; ++t) inverse += 1.0 / (window > 0 ? std::min(t, window) : t);
    most = std::max(most, tokens / inverse);
  }
  return most;
}

double gradient_width_term(const StackSpec& spec, const std::vector<double>& finite_width, std::size_t depth,
                           bool of_attention) {
  const double across = spec.model.norm == NormKind::layer ? 2.0 : 1.0;
  const double width = spec.model.width;
  if (width <= across) return std::numeric_limits<double>::infinity();
  const double inside = steps_inside * (finite_width.at(1) - finite_width.at(0));
  const double way = width / (width - across) * (2.0 * finite_width.back() - finite_width.at(depth) + inside);
  const double overlaps = std::log1p(mean_keys(spec) / width) * (of_attention ? 1.0 : outside_attention);
  return (has_norms(spec.model) ? 1.0 : without_norms) * (way + overlaps);
}

double signal_overlap_term(const StackSpec& spec, std::size_t sublayers, bool of_attention) {
  double strength = of_attention ? 1.0 : outside_attention;
  if (!has_norms(spec.model)) {
    const auto mlps = static_cast<double>(sublayers / 2);
    strength = without_norms_overlap * (is_gated(spec.model.mlp) ? std::exp2(mlps) : 1.0);
  }
  return strength * std::log1p(mean_keys(spec) / spec.model.width);
}

double compounded(const StackSpec& spec, double term) { return has_norms(spec.model) ? term : std::expm1(term); }

bool is_of_attention(Weight weight) { return is_layer_matrix(weight) && !is_of_mlp(weight); }

}  // namespace periscope::judge
