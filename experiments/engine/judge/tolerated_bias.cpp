#include "experiments/engine/judge/tolerated_bias.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/numerics/tolerances.h"

namespace periscope::judge {
namespace {

constexpr double without_norms = 3.0;
constexpr double without_norms_overlap = 4.0;
constexpr double steps_inside = 4.0;
constexpr double outside_attention = 0.25;
constexpr double kernel_accuracy = 1e-7;

double square(double x) { return x * x; }

/// Returns an entry of a curve, or `otherwise` if it is missing or NaN.
double at(const Profile& profile, Statistic statistic, Signal signal, std::size_t i, double otherwise = 0.0) {
  const Curve* curve = profile.find(statistic, signal);
  return curve != nullptr && i < curve->value.size() && !std::isnan(curve->value[i]) ? curve->value[i] : otherwise;
}

/// Returns the size below which a sum of `entries` squares may underflow in dtype or double; `c` is a safety factor.
double underflow_of(double entries, double c, DType dtype) {
  return entries * (square(c * format_of(dtype).smallest_subnormal()) + c * std::numeric_limits<double>::denorm_min());
}

double safety(const ModelSpec& model) {
  return roundings_of_a_pass * std::sqrt(static_cast<double>(model.sublayers()));
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
  const double path = width / (width - across) * (2.0 * factor_.back() - factor_.at(depth) + inside);
  const double overlaps = std::log1p(mean_keys(spec_) / width) * (of_attention ? 1.0 : outside_attention);
  return options_.finite_width_gradient * ((spec_.model.has_norms() ? 1.0 : without_norms) * (path + overlaps));
}

bool is_of_attention(Weight weight) { return is_layer_matrix(weight) && !is_of_mlp(weight); }

RoundingError gradient_rounding(const StackSpec& spec, const Profile& measured, DType dtype, Weight weight, int layer) {
  const ModelSpec& m = spec.model;
  const WeightShape shape = shape_of(m, weight, layer);
  const double c = safety(m);
  const auto sublayer = static_cast<std::size_t>(2 * layer);
  RoundingError f{.measured = underflow_of(static_cast<double>(shape.fan_out) * shape.fan_in, c, dtype)};
  if (weight != Weight::q && weight != Weight::k) return f;
  const double power = m.width * at(measured, Statistic::second_moment, Signal::A_out, sublayer);
  const double g = at(measured, Statistic::grad_sq, Signal::f_out, sublayer);
  const bool normed = m.qk_norm_at(layer) != QkNorm::none;
  const double other = square(stddev_of(spec, layer, weight == Weight::q ? Weight::k : Weight::q)) * power;
  const double own = square(stddev_of(spec, layer, weight)) * power;
  const double e = m.head_dim_at(layer);
  const double tokens = spec.input.tokens;
  const double cosine = std::min(std::abs(at(measured, Statistic::token_cosine, Signal::A_out, sublayer, 1.0)), 1.0);
  f.size = 2.0 * tokens * (1.0 + (tokens - 1.0) * cosine) * m.heads * e * square(stddev_of(spec, layer, Weight::o)) *
           g * square(stddev_of(spec, layer, Weight::v)) * power * power;
  if (m.v_norm_at(layer)) f.size /= std::max(square(stddev_of(spec, layer, Weight::v)) * power, m.norm_eps);
  // An inner norm divides by the squares of the heads' outputs, which are means of values over up to `tokens` tokens.
  if (m.inner_norm_at(2 * layer)) {
    const double values = m.v_norm_at(layer) ? 1.0 : square(stddev_of(spec, layer, Weight::v)) * power;
    f.size *= tokens / std::max(values, tokens * m.norm_eps);
  }
  f.size *= normed ? 1.0 / (own + m.norm_eps) : other;
  if (!std::isfinite(f.size)) f.size = 0.0;
  f.measured += f.size * square(c * format_of(dtype).spacing_at_1());
  f.predicted = kernel_accuracy * f.size;
  return f;
}

RoundingError stream_rounding(const StackSpec& spec, DType dtype) {
  return {.measured = underflow_of(spec.model.width, safety(spec.model), dtype)};
}

double share_bias(double p, double bias_of_log, double variance) {
  const double derivative = p * (1.0 - p);
  return derivative * bias_of_log + std::min(derivative > 0.0 ? variance / (2.0 * derivative) : 0.0, 1.0);
}

}  // namespace periscope::judge
