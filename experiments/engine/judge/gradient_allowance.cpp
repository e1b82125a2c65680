#include "experiments/engine/judge/gradient_allowance.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace periscope::judge {
namespace {

constexpr double without_norms = 3.0;
constexpr double without_norms_overlap = 4.0;
constexpr double steps_inside = 4.0;
constexpr double outside_attention = 0.25;

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
  const double across = subtracts_mean(spec.model.norm) ? 2.0 : 1.0;
  const double width = spec.model.width;
  if (width <= across) return std::numeric_limits<double>::infinity();
  const double inside = steps_inside * (finite_width.at(1) - finite_width.at(0));
  const double way = width / (width - across) * (2.0 * finite_width.back() - finite_width.at(depth) + inside);
  const double overlaps = std::log1p(mean_keys(spec) / width) * (of_attention ? 1.0 : outside_attention);
  return (spec.model.has_norms() ? 1.0 : without_norms) * (way + overlaps);
}

double signal_overlap_term(const StackSpec& spec, std::size_t sublayers, bool of_attention) {
  double strength = of_attention ? 1.0 : outside_attention;
  if (!spec.model.has_norms()) {
    const auto mlps = static_cast<double>(sublayers / 2);
    strength = without_norms_overlap * (is_gated(spec.model.mlp) ? std::exp2(mlps) : 1.0);
  }
  return strength * std::log1p(mean_keys(spec) / spec.model.width);
}

double compounded(const StackSpec& spec, double term) { return spec.model.has_norms() ? term : std::expm1(term); }

bool is_of_attention(Weight weight) { return is_layer_matrix(weight) && !is_of_mlp(weight); }

}  // namespace periscope::judge
