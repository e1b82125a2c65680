#include "experiments/studies/formats/formats.h"

#include <limits>

#include "sim/emulated/quantize.h"
#include "sim/model/parameters.h"
#include "theory/formats/rounding_noise.h"

namespace periscope::formats {
namespace {

using Values = std::vector<double>;

/// Returns whether values rounded to `first` are unchanged by rounding to `then`.
bool is_unchanged(const Quantization& first, const Quantization& then) {
  if (then.keeps_f32()) return true;
  for (const TensorFormat& format : {first.format, then.format}) {
    if (format.is_integer() || format.has_block_scale()) return false;
  }
  return first.format.floating.precision <= then.format.floating.precision &&
         first.format.floating.largest <= then.format.floating.largest;
}

/// First-order effect of roundings on the stream (T27), from one pass in f64. A rounded tensor s has independent errors
/// δ with mean squares v_i, which change the stream downstream by Jδ. The mean square of Jδ follows from the gradient
/// g_s = Jᵀ g of a loss whose gradient g at the stream is isotropic: E‖Jδ‖² = Σ_i v_i g_s,i² · ND/‖g‖². These terms are
/// summed over sublayers (theory::NoiseBudget).
class NoiseSum {
 public:
  NoiseSum(const Backend& ops, const StackSpec& spec, const DeviationProbe& exact, const Profile& weights,
           const FormatChoice& choice)
      : ops_(ops), spec_(spec), exact_(exact), weights_(weights), choice_(choice) {}
  void add_input(const PassInput& input) {
    const Quantization& stream = choice_.of(Part::stream);
    // Table rows are rounded with one scale per row (FormatWeights::rows).
    Quantization table = choice_.of(Part::weights);
    if (table.scale == ScaleOver::tensor) table.scale = ScaleOver::row;
    for (const TableRows& rows : input.tables) rounded_rows(table, rows, input);
    const bool as_read = input.tables.size() == 1 && input.tables.front().factor == 1.0 && input.massive == 1.0 &&
                         !spec_.model.projects_embedding();
    if (!as_read || !is_unchanged(table, stream)) rounded(stream, -1, Signal::input);
    if (spec_.model.embedding_norm) rounded(stream, -1, Signal::x_out);
  }
  void add_sublayer(int l) {
    const SublayerRule rule = spec_.model.rule(l);
    Signal last = Signal::A_out;  // input of W_o or W_down
    for (std::size_t i = 0; i < signal_names.size(); ++i) {
      const auto s = static_cast<Signal>(i);
      if (exact_.at({Pass::forward, s}, l).empty()) continue;
      if (s == Signal::mixed || s == Signal::hidden || s == Signal::gated_mixed || s == Signal::inner) last = s;
      // The output of a missing norm equals its input, which is counted separately.
      if ((s == Signal::A_out && !rule.norm_a) || (s == Signal::B_out && !rule.norm_b)) continue;
      rounded(choice_.of(*part_of(spec_.model, {l, s, Pass::forward})), l, s, is_rounded_twice(l, s) ? 2.0 : 1.0);
    }
    read(l, Signal::A_out);
    read(l, last);
    for (const Weight w : weights_in(spec_.model, l)) {
      if (!is_norm(w)) matrix(l, w);
    }
  }
  /// Returns the SQNR Σr²/E‖Jδ‖² after sublayer l, in dB. r is the stream in f64.
  [[nodiscard]] double sqnr_after(int l) const {
    return budget_.sqnr(exact_.at({Pass::forward, Signal::x_out}, l), exact_.at({Pass::backward, Signal::x_out}, l));
  }

 private:
  /// Returns whether two roundings count at a signal: after norm C, which preserves the relative errors of the rounded
  /// sum, and at projections that are rounded again after rotation or normalisation.
  [[nodiscard]] bool is_rounded_twice(int l, Signal s) const {
    const ModelSpec& m = spec_.model;
    if (s == Signal::x_out) return m.rule(l).norm_c;
    if (s == Signal::v) return m.v_norm_at(ModelSpec::layer_of(l));
    return (s == Signal::q || s == Signal::k) && (m.rope || m.qk_norm_at(ModelSpec::layer_of(l)) != QkNorm::none);
  }
  void rounded(const Quantization& q, int l, Signal signal, double times = 1.0) {
    if (q.keeps_f32()) return;
    const Values& x = exact_.at({Pass::forward, signal}, l);
    const Values& g = exact_.at({Pass::backward, signal}, l);
    const Tensor::Index tokens = spec_.input.tokens;
    const auto cols = static_cast<Tensor::Index>(x.size()) / tokens;
    const Values v = square_errors(ops_.from_host(tokens, cols, DType::f64, x), q);
    budget_.add(v, g, times);
  }
  /// Adds the errors of table rows, multiplied by the factors of the pass.
  void rounded_rows(const Quantization& q, const TableRows& table, const PassInput& input) {
    if (q.keeps_f32()) return;
    const auto width = table.rows.size() / static_cast<std::size_t>(spec_.input.tokens);
    Values v;
    for (std::size_t first = 0; first < table.rows.size(); first += width) {
      const Values row(table.rows.begin() + first, table.rows.begin() + first + width);
      const Values errors = square_errors(ops_.from_host(1, static_cast<Tensor::Index>(width), DType::f64, row), q);
      for (std::size_t i = 0; i < width; ++i) {
        const bool massive = static_cast<int>(i) < input.massive_features;
        const double factor = table.factor * (massive ? input.massive : 1.0);
        v.push_back(factor * factor * errors[i]);
      }
    }
    budget_.add(v, exact_.at({Pass::backward, table.signal}, -1));
  }
  /// Adds the rounding of a matrix's input, unless the signal's own format already represents it.
  void read(int l, Signal signal) {
    const std::optional<Part> part = part_of(spec_.model, {l, signal, Pass::forward});
    if (part && is_unchanged(choice_.of(*part), choice_.of(Part::inputs))) return;
    rounded(choice_.of(Part::inputs), l, signal);
  }
  void matrix(int l, Weight weight) {
    const Quantization& q = choice_.of(Part::weights);
    if (q.keeps_f32()) return;
    const int layer = ModelSpec::layer_of(l);
    const double sigma = stddev_of(spec_, layer, weight);
    const Curve& gradients = *weights_.find(Statistic::grad_sq, weight);
    budget_.add(sigma * sigma * theory::weight_noise(spec_, layer, weight, q),
                gradients.value[static_cast<std::size_t>(layer)]);
  }

  const Backend& ops_;
  const StackSpec& spec_;
  const DeviationProbe& exact_;
  const Profile& weights_;
  const FormatChoice& choice_;
  theory::NoiseBudget budget_;
};

}  // namespace

std::vector<double> predicted_sqnr(const Backend& ops, const StackSpec& spec, const DeviationProbe& exact,
                                   const Profile& weights, const FormatChoice& choice, const PassInput& input) {
  const int sublayers = spec.model.sublayers();
  if (choice.sums) return Values(static_cast<std::size_t>(sublayers) + 1, std::numeric_limits<double>::quiet_NaN());
  NoiseSum noise(ops, spec, exact, weights, choice);
  noise.add_input(input);
  Values sqnr{noise.sqnr_after(-1)};
  for (int l = 0; l < sublayers; ++l) {
    noise.add_sublayer(l);
    sqnr.push_back(noise.sqnr_after(l));
  }
  return sqnr;
}

}  // namespace periscope::formats
