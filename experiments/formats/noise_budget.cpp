#include "experiments/formats/noise_budget.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/model/parameters.h"
#include "theory/quantization.h"

namespace periscope::formats {
namespace {

constexpr double no_ratio = std::numeric_limits<double>::quiet_NaN();  // where nothing is rounded, or no law is known

using Values = std::vector<double>;

/// Σ 4^⌊log₂|x|⌋ g².
double floating_sum(const Values& x, const Values& g) {
  double sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] != 0.0) sum += std::ldexp(g[i] * g[i], 2 * std::ilogb(x[i]));
  }
  return sum;
}

/// Σ over groups of max x² · Σ g².
double integer_sum(const Values& x, const Values& g, std::size_t cols, ScaleOver scale) {
  const std::size_t row = scale == ScaleOver::tensor ? x.size() : cols;
  const std::size_t length = scale == ScaleOver::block ? block_length : row;
  double sum = 0.0;
  for (std::size_t start = 0; start < x.size(); start += row) {
    for (std::size_t first = start; first < start + row; first += length) {
      const std::size_t end = std::min(first + length, start + row);
      double largest = 0.0;
      double squares = 0.0;
      for (std::size_t i = first; i < end; ++i) {
        largest = std::max(largest, std::abs(x[i]));
        squares += g[i] * g[i];
      }
      sum += largest * largest * squares;
    }
  }
  return sum;
}

/// How many entries of a matrix share a scale.
std::size_t group_of(const WeightShape& shape, ScaleOver scale) {
  const auto row = static_cast<std::size_t>(shape.fan_in);
  if (scale == ScaleOver::tensor) return row * static_cast<std::size_t>(shape.fan_out);
  return scale == ScaleOver::block ? std::min<std::size_t>(row, block_length) : row;
}

/// Fills one budget.
class Filler {
 public:
  Filler(const StackSpec& spec, const TruthKeeper& truth, ScaleOver scale)
      : spec_(spec), truth_(truth), scale_(scale), depths_(static_cast<std::size_t>(spec.model.sublayers()) + 1) {
    budget_.floating.assign(part_names.size() * depths_, 0.0);
    budget_.integer = budget_.floating;
    budget_.weights.resize(depths_);
    budget_.stream.assign(depths_, 0.0);
    budget_.gradient = budget_.stream;
  }

  NoiseBudget take(const WeightGradientSizes& weights) {
    const ModelSpec& m = spec_.model;
    add(Part::stream, -1, Signal::x_out, 1.0);
    stream(-1);
    for (int l = 0; l < m.sublayers(); ++l) {
      const SublayerRule rule = m.rule(l);
      // Behind norm C the sum was rounded too: relative errors stay what they are through a norm.
      add(Part::stream, l, Signal::x_out, rule.norm_c ? 2.0 : 1.0);
      if (rule.norm_a) add(Part::norms, l, Signal::A_out, 1.0);
      if (rule.norm_b) add(Part::norms, l, Signal::B_out, 1.0);
      add(Part::inputs, l, Signal::A_out, 1.0);
      if (ModelSpec::is_attention(l)) {
        // A projection is rounded, turned (or normalised) and rounded again.
        const double twice = m.rope || m.qk_norm != QkNorm::none ? 2.0 : 1.0;
        add(Part::modules, l, Signal::q, twice);
        add(Part::modules, l, Signal::k, twice);
        for (const Signal s : {Signal::v, Signal::mixed, Signal::f_out}) add(Part::modules, l, s, 1.0);
        add(Part::inputs, l, Signal::mixed, 1.0);
      } else {
        if (is_gated(m.mlp)) add(Part::modules, l, Signal::gate, 1.0);
        for (const Signal s : {Signal::up, Signal::hidden, Signal::f_out}) add(Part::modules, l, s, 1.0);
        add(Part::inputs, l, Signal::hidden, 1.0);
      }
      for (const Weight w : weights_in(m, l)) {
        if (!is_norm(w)) matrix(l, w, weights.of(matrix_id(l / 2, w)));
      }
      stream(l);
    }
    return std::move(budget_);
  }

 private:
  [[nodiscard]] std::size_t at(Part part, int l) const {
    return static_cast<std::size_t>(part) * depths_ + static_cast<std::size_t>(l + 1);
  }
  [[nodiscard]] const Values& forward(Signal signal, int l) const { return truth_.at({Pass::forward, signal}, l); }
  [[nodiscard]] const Values& gradient(Signal signal, int l) const { return truth_.at({Pass::backward, signal}, l); }

  void add(Part part, int l, Signal signal, double times) {
    const Values& x = forward(signal, l);
    const Values& g = gradient(signal, l);
    const std::size_t cols = x.size() / static_cast<std::size_t>(spec_.input.tokens);
    budget_.floating[at(part, l)] += times * floating_sum(x, g);
    budget_.integer[at(part, l)] += times * integer_sum(x, g, cols, scale_);
  }
  void matrix(int l, Weight weight, double gradient_square) {
    const double sigma = stddev_of(spec_, l / 2, weight);
    const double variance = sigma * sigma;
    budget_.weights[static_cast<std::size_t>(l + 1)][sigma] += variance * gradient_square;
    const std::size_t group = group_of(shape_of(spec_.model, weight), scale_);
    // E[a²], without the entry that has no error.
    budget_.integer[at(Part::weights, l)] += variance * gradient_square * 12.0 * theory::integer_noise(1, group);
  }
  void stream(int l) {
    const auto squares = [](const Values& x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); };
    budget_.stream[static_cast<std::size_t>(l + 1)] = squares(forward(Signal::x_out, l));
    budget_.gradient[static_cast<std::size_t>(l + 1)] = squares(gradient(Signal::x_out, l));
  }

  const StackSpec& spec_;
  const TruthKeeper& truth_;
  ScaleOver scale_;
  std::size_t depths_;
  NoiseBudget budget_;
};

/// σ of numbers that are scaled into the range of a format, up to a factor of two, which changes nothing there.
double sigma_in(const Quantization& q, double sigma) {
  if (q.scale == ScaleOver::nothing) return sigma;
  constexpr double about_the_largest = 8.0;  // in units of σ
  return std::ldexp(sigma, std::ilogb(q.format.floating.largest / (about_the_largest * sigma)));
}

/// How often the noise of rounding to nearest is in that of the rounding that is used: a stochastic rounding of a
/// number at share f of a spacing Δ has the variance f(1 − f)Δ², on average Δ²/6 instead of Δ²/12.
double times_nearest(const Quantization& q) { return q.stochastic ? 2.0 : 1.0; }

/// Whether what is held like `first` stays as it is when it is held like `then` too.
bool keeps(const Quantization& first, const Quantization& then) {
  if (then.keeps_f32()) return true;
  if (first.format.is_integer() || then.format.is_integer()) return false;
  return first.format.floating.precision <= then.format.floating.precision &&
         first.format.floating.largest <= then.format.floating.largest;
}

}  // namespace

void WeightGradientSizes::on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) {
  if (parameter.part != ParameterId::Part::matrix || !is_layer_matrix(parameter.weight)) return;
  const std::vector<double> squares = ops_.to_host(gradient.squares());
  squares_[parameter] = std::accumulate(squares.begin(), squares.end(), 0.0);
}

double WeightGradientSizes::of(const ParameterId& parameter) const {
  const auto it = squares_.find(parameter);
  return it == squares_.end() ? 0.0 : it->second;
}

NoiseBudget noise_budget(const StackSpec& spec, const TruthKeeper& truth, const WeightGradientSizes& weights,
                         ScaleOver scale) {
  return Filler(spec, truth, scale).take(weights);
}

std::vector<double> predicted_sqnr(const StackSpec& spec, const NoiseBudget& budget, const Holding& holding) {
  const std::size_t depths = budget.stream.size();
  if (holding.sums) return std::vector<double>(depths, no_ratio);
  const double entries = static_cast<double>(spec.input.tokens) * spec.model.width;
  std::vector<double> sqnr;
  double injected = 0.0;
  for (std::size_t depth = 0; depth < depths; ++depth) {
    for (std::size_t p = 0; p < part_names.size(); ++p) {
      const Quantization& q = holding.parts[p];
      const auto part = static_cast<Part>(p);
      const bool held_before =
          part == Part::inputs && keeps(holding.of(Part::norms), q) && keeps(holding.of(Part::modules), q);
      if (q.keeps_f32() || held_before) continue;
      const std::size_t i = p * depths + depth;
      if (q.format.is_integer()) {
        injected += times_nearest(q) * budget.integer[i] / (12.0 * q.format.largest_integer * q.format.largest_integer);
      } else if (part == Part::weights) {
        for (const auto& [sigma, sum] : budget.weights[depth]) {
          injected += times_nearest(q) * sum * theory::floating_noise(q.format.floating, sigma_in(q, sigma));
        }
      } else {
        injected += times_nearest(q) * budget.floating[i] * std::ldexp(1.0, -2 * q.format.floating.precision) / 3.0;
      }
    }
    sqnr.push_back(10.0 * std::log10(budget.stream[depth] * budget.gradient[depth] / (injected * entries)));
    if (injected == 0.0) sqnr.back() = no_ratio;
  }
  return sqnr;
}

double weight_sqnr(const StackSpec& spec, Weight weight, const Quantization& q) {
  if (q.keeps_f32()) return no_ratio;
  const double noise =
      q.format.is_integer()
          ? theory::integer_noise(q.format.largest_integer, group_of(shape_of(spec.model, weight), q.scale))
          : theory::floating_noise(q.format.floating, sigma_in(q, stddev_of(spec, 0, weight)));
  return -10.0 * std::log10(times_nearest(q) * noise);
}

}  // namespace periscope::formats
