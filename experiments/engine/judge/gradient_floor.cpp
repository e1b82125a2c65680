#include "experiments/engine/judge/gradient_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/numerics/allowances.h"
#include "sim/spec/weight.h"

namespace periscope::judge {
namespace {

constexpr double kernel_accuracy = 1e-7;

double square(double x) { return x * x; }

/// Returns the entry of a curve, or `otherwise` if there is no such number.
double at(const Profile& profile, Statistic statistic, Signal signal, std::size_t i, double otherwise = 0.0) {
  const Curve* curve = profile.find(statistic, signal);
  return curve != nullptr && i < curve->value.size() && !std::isnan(curve->value[i]) ? curve->value[i] : otherwise;
}

/// The smallest sum of `entries` squares that a run can represent: of the dtype's smallest number, or of a double.
double underflow_of(double entries, double c, DType dtype) {
  return entries * (square(c * format_of(dtype).smallest_subnormal()) + c * std::numeric_limits<double>::denorm_min());
}

double safety(const ModelSpec& model) {
  return roundings_of_a_pass * std::sqrt(static_cast<double>(model.sublayers()));
}

}  // namespace

GradientFloor gradient_floor(const StackSpec& spec, const Profile& measured, DType dtype, Weight weight, int layer) {
  const ModelSpec& m = spec.model;
  const WeightShape shape = shape_of(m, weight, layer);
  const double c = safety(m);
  const auto sublayer = static_cast<std::size_t>(2 * layer);
  GradientFloor f{.measured = underflow_of(static_cast<double>(shape.fan_out) * shape.fan_in, c, dtype)};
  if (weight != Weight::q && weight != Weight::k) return f;
  const double power = m.width * at(measured, Statistic::second_moment, Signal::A_out, sublayer);
  const double g = at(measured, Statistic::grad_sq, Signal::f_out, sublayer);
  const bool normed = m.qk_norm_at(layer) != QkNorm::none;
  const double other = square(stddev_of(spec, layer, weight == Weight::q ? Weight::k : Weight::q)) * power;
  const double own = square(stddev_of(spec, layer, weight)) * power;
  const double e = m.head_dim;
  const double tokens = spec.input.tokens;
  const double cosine = std::min(std::abs(at(measured, Statistic::token_cosine, Signal::A_out, sublayer, 1.0)), 1.0);
  f.size = 2.0 * tokens * (1.0 + (tokens - 1.0) * cosine) * m.heads * e * square(stddev_of(spec, layer, Weight::o)) *
           g * square(stddev_of(spec, layer, Weight::v)) * power * power;
  if (m.v_norm_at(layer)) f.size /= std::max(square(stddev_of(spec, layer, Weight::v)) * power, m.norm_eps);
  // An inner norm divides by the square of the heads' outputs, means over up to all tokens of values.
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

GradientFloor stream_floor(const StackSpec& spec, DType dtype) {
  return {.measured = underflow_of(spec.model.width, safety(spec.model), dtype)};
}

}  // namespace periscope::judge
