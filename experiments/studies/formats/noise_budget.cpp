#include "experiments/studies/formats/formats.h"

#include <limits>
#include <numeric>
#include <span>

#include "sim/emulated/quantize.h"
#include "sim/model/parameters.h"
#include "theory/formats/rounding_noise.h"

namespace periscope::formats {
namespace {

using Values = std::vector<double>;

/// True if what is held like `first` stays as it is when it is held like `then` too.
bool keeps(const Quantization& first, const Quantization& then) {
  if (then.keeps_f32()) return true;
  if (first.format.is_integer() || then.format.is_integer()) return false;
  return first.format.floating.precision <= then.format.floating.precision &&
         first.format.floating.largest <= then.format.floating.largest;
}

/// T27: what roundings do to the stream, to first order, from one pass in f64 alone. A tensor s that is rounded gets
/// independent errors of mean squares v_i; the stream below it changes by J δ, whose mean square follows from the
/// gradient g_s = Jᵀ g of a loss whose gradient g at the stream is isotropic: E‖Jδ‖² = Σ_i v_i g_s,i² · ND/‖g‖².
/// Adds this up sublayer by sublayer (theory::NoiseBudget).
class NoiseSum {
 public:
  NoiseSum(const Backend& ops, const StackSpec& spec, const DeviationProbe& exact, const Profile& weights,
           const Holding& holding)
      : ops_(ops), spec_(spec), exact_(exact), weights_(weights), holding_(holding) {}
  void add_input(const Values& drawn, const Values& planted) {
    const Quantization& stream = holding_.of(Part::stream);
    if (spec_.input.kind == InputKind::gaussian) return rounded(stream, -1, Signal::x_out);
    // Rows of a table, rounded like it, every row with a scale of its own (FormatWeights::rows).
    Quantization table = holding_.of(Part::weights);
    if (table.scale == ScaleOver::tensor) table.scale = ScaleOver::row;
    rounded_rows(table, drawn, planted);
    // A norm, a factor or planted features make other numbers of them.
    const bool as_read = drawn == planted && spec_.model.embedding.scale == 1.0 && !spec_.model.embedding_norm;
    if (!as_read || !keeps(table, stream)) rounded(stream, -1, Signal::x_out);
  }
  void add_sublayer(int l) {
    const SublayerRule rule = spec_.model.rule(l);
    Signal last = Signal::A_out;  // what W_o or W_down reads
    for (std::size_t i = 0; i < signal_names.size(); ++i) {
      const auto s = static_cast<Signal>(i);
      if (exact_.at({Pass::forward, s}, l).empty()) continue;
      if (s == Signal::mixed || s == Signal::hidden || s == Signal::gated_mixed || s == Signal::inner) last = s;
      // Without the norm these are the tensor before it.
      if ((s == Signal::A_out && !rule.norm_a) || (s == Signal::B_out && !rule.norm_b)) continue;
      rounded(holding_.of(*part_of(spec_.model, {l, s, Pass::forward})), l, s, is_rounded_twice(l, s) ? 2.0 : 1.0);
    }
    read(l, Signal::A_out);
    read(l, last);
    for (const Weight w : weights_in(spec_.model, l)) {
      if (!is_norm(w)) matrix(l, w);
    }
  }
  /// Σr²/E‖Jδ‖² of the stream behind sublayer l, in dB.
  [[nodiscard]] double sqnr_after(int l) const {
    return budget_.sqnr(exact_.at({Pass::forward, Signal::x_out}, l), exact_.at({Pass::backward, Signal::x_out}, l));
  }

 private:
  /// True for sums that norm C reads, as relative errors pass a norm unchanged, and for projections that are rounded
  /// once more after they are rotated or normalised.
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
  /// The rows of the table that were drawn, and what becomes of their errors until they are the stream: a factor,
  /// planted features, and the embedding norm, which multiplies errors orthogonal to the token as it does the token.
  void rounded_rows(const Quantization& q, const Values& drawn, const Values& planted) {
    if (q.keeps_f32()) return;
    const Values& x = exact_.at({Pass::forward, Signal::x_out}, -1);
    const Tensor::Index tokens = spec_.input.tokens;
    const auto width = x.size() / static_cast<std::size_t>(tokens);
    Values rows = drawn;
    for (double& r : rows) r /= spec_.model.embedding.scale;
    Values v = square_errors(ops_.from_host(tokens, static_cast<Tensor::Index>(width), DType::f64, rows), q);
    for (std::size_t first = 0; first < x.size(); first += width) {
      const std::span read = std::span(planted).subspan(first, width);
      const bool centred = spec_.model.embedding_norm && subtracts_mean(spec_.model.norm);
      const double mean = centred ? std::accumulate(read.begin(), read.end(), 0.0) / static_cast<double>(width) : 0.0;
      double out = 0.0;
      double in = 0.0;
      for (std::size_t i = 0; i < width; ++i) {
        out += x[first + i] * x[first + i];
        in += (read[i] - mean) * (read[i] - mean);
      }
      const double norm = in > 0.0 ? out / in : 0.0;
      for (std::size_t i = 0; i < width; ++i) {
        const double row = rows[first + i];
        const double times = row == 0.0 ? 0.0 : read[i] / row;  // a zero is rounded without error
        v[first + i] *= times * times * norm;
      }
    }
    budget_.add(v, exact_.at({Pass::backward, Signal::x_out}, -1));
  }
  /// A signal that a matrix reads, which something else holds already.
  void read(int l, Signal signal) {
    const std::optional<Part> held = part_of(spec_.model, {l, signal, Pass::forward});
    if (held && keeps(holding_.of(*held), holding_.of(Part::inputs))) return;
    rounded(holding_.of(Part::inputs), l, signal);
  }
  void matrix(int l, Weight weight) {
    const Quantization& q = holding_.of(Part::weights);
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
  const Holding& holding_;
  theory::NoiseBudget budget_;
};

}  // namespace

std::vector<double> predicted_sqnr(const Backend& ops, const StackSpec& spec, const DeviationProbe& exact,
                                   const Profile& weights, const Holding& holding, const std::vector<double>& drawn,
                                   const std::vector<double>& planted) {
  const int sublayers = spec.model.sublayers();
  if (holding.sums) return Values(static_cast<std::size_t>(sublayers) + 1, std::numeric_limits<double>::quiet_NaN());
  NoiseSum noise(ops, spec, exact, weights, holding);
  noise.add_input(drawn, planted);
  Values sqnr{noise.sqnr_after(-1)};
  for (int l = 0; l < sublayers; ++l) {
    noise.add_sublayer(l);
    sqnr.push_back(noise.sqnr_after(l));
  }
  return sqnr;
}

}  // namespace periscope::formats
