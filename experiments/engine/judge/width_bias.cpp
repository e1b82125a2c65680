#include "experiments/engine/judge/width_bias.h"

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

double WidthBias::of_signal(Statistic statistic, Signal signal, std::size_t i) const {
  const ModelSpec& m = spec_.model;
  const bool cosine = statistic == Statistic::token_cosine;
  const bool module = signal == Signal::f_out;
  const bool of_attention = module && ModelSpec::is_attention(static_cast<int>(i));
  const std::size_t depth = module ? static_cast<std::size_t>(m.step_with(static_cast<int>(i))) + 1 : i;
  double strength = of_attention ? 1.0 : outside_attention;
  if (!m.has_norms()) {
    const std::size_t mlps = depth / 2;
    strength = without_norms_overlap * (is_gated(m.mlp) ? std::exp2(static_cast<double>(mlps)) : 1.0);
  }
  const double overlaps = depth > 0 ? strength * std::log1p(mean_keys(spec_) / m.width) : 0.0;
  const double least = cosine ? 1.0 / m.width : 0.0;
  const double constant = cosine || of_attention ? options_.finite_width_cosine : options_.finite_width;
  const double term = constant * (std::max(factor_.at(depth), least) + overlaps);
  return cosine || m.has_norms() ? term : std::expm1(term);
}

double WidthBias::of_log_gradient(std::size_t depth, bool of_attention) const {
  const double across = subtracts_mean(spec_.model.norm) ? 2.0 : 1.0;
  const double width = spec_.model.width;
  if (width <= across) return std::numeric_limits<double>::infinity();
  const double inside = steps_inside * (factor_.at(1) - factor_.at(0));
  const double way = width / (width - across) * (2.0 * factor_.back() - factor_.at(depth) + inside);
  const double overlaps = std::log1p(mean_keys(spec_) / width) * (of_attention ? 1.0 : outside_attention);
  return options_.finite_width_gradient * ((spec_.model.has_norms() ? 1.0 : without_norms) * (way + overlaps));
}

bool is_of_attention(Weight weight) { return is_layer_matrix(weight) && !is_of_mlp(weight); }

}  // namespace periscope::judge
