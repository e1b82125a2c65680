#include "experiments/studies/formats/noise_budget.h"

#include <algorithm>
#include <limits>
#include <numeric>

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

/// Adds up, sublayer by sublayer, what the roundings before a depth do to the stream there (theory::NoiseBudget).
class NoiseSum {
 public:
  NoiseSum(const Backend& ops, const StackSpec& spec, const DeviationProbe& exact, const Profile& weights,
           const Holding& holding)
      : ops_(ops), spec_(spec), exact_(exact), weights_(weights), holding_(holding) {}
  void add_input(const Entering& entering) {
    const Quantization& stream = holding_.of(Part::stream);
    if (spec_.input.kind == InputKind::gaussian) return rounded(stream, -1, Signal::x_out);
    // Rows of a table, rounded like it, every row with a scale of its own (FormatWeights::rows).
    Quantization table = holding_.of(Part::weights);
    if (table.scale == ScaleOver::tensor) table.scale = ScaleOver::row;
    rounded_rows(table, entering);
    // A norm, a factor or planted features make other numbers of them.
    const bool as_read =
        entering.drawn == entering.planted && spec_.model.embedding.scale == 1.0 && !spec_.model.embedding_norm;
    if (!as_read || !keeps(table, stream)) rounded(stream, -1, Signal::x_out);
  }
  void add_sublayer(int l) {
    const ModelSpec& m = spec_.model;
    const SublayerRule rule = m.rule(l);
    // Behind norm C the sum was rounded too: relative errors stay what they are through a norm.
    rounded(Part::stream, l, Signal::x_out, rule.norm_c ? 2.0 : 1.0);
    if (rule.norm_a) rounded(Part::norms, l, Signal::A_out);
    if (rule.norm_b) rounded(Part::norms, l, Signal::B_out);
    read(l, Signal::A_out);
    if (ModelSpec::is_attention(l)) {
      // A projection is rounded, turned (or normalised) and rounded again.
      const double twice = m.rope || m.qk_norm_at(ModelSpec::layer_of(l)) != QkNorm::none ? 2.0 : 1.0;
      rounded(Part::modules, l, Signal::q, twice);
      rounded(Part::modules, l, Signal::k, twice);
      rounded(Part::modules, l, Signal::v, m.v_norm_at(ModelSpec::layer_of(l)) ? 2.0 : 1.0);
      rounded(Part::modules, l, Signal::mixed);
      Signal last = Signal::mixed;
      if (m.gates_at(ModelSpec::layer_of(l)) > 0) {
        last = Signal::gated_mixed;
        for (const Signal s : {Signal::attention_gate, last}) rounded(Part::modules, l, s);
      }
      put_out(l, last);
    } else {
      if (is_gated(m.mlp)) rounded(Part::modules, l, Signal::gate);
      for (const Signal s : {Signal::up, Signal::hidden}) rounded(Part::modules, l, s);
      put_out(l, Signal::hidden);
    }
    for (const Weight w : weights_in(m, l)) {
      if (!is_norm(w)) matrix(l, w);
    }
  }
  /// Σr²/E‖Jδ‖² of the stream behind sublayer l, in dB.
  [[nodiscard]] double sqnr_behind(int l) const {
    return budget_.sqnr(exact_.at({Pass::forward, Signal::x_out}, l), exact_.at({Pass::backward, Signal::x_out}, l));
  }

 private:
  /// The module's output, and what W_o or W_down reads: the inner norm's output, which is rounded then, or `before` it.
  void put_out(int l, Signal before) {
    const bool normed = spec_.model.inner_norm_at(l);
    if (normed) rounded(Part::modules, l, Signal::inner);
    rounded(Part::modules, l, Signal::f_out);
    read(l, normed ? Signal::inner : before);
  }
  void rounded(Part part, int l, Signal signal, double times = 1.0) { rounded(holding_.of(part), l, signal, times); }
  void rounded(const Quantization& q, int l, Signal signal, double times = 1.0) {
    if (q.keeps_f32()) return;
    const Values& x = exact_.at({Pass::forward, signal}, l);
    const Values& g = exact_.at({Pass::backward, signal}, l);
    const Tensor::Index tokens = spec_.input.tokens;
    const auto cols = static_cast<Tensor::Index>(x.size()) / tokens;
    const Values v = square_errors(ops_.from_host(tokens, cols, DType::f64, x), q);
    budget_.add(v, g, times);
  }
  /// The rows of the table that were drawn, and what becomes of their errors until they are the stream.
  void rounded_rows(const Quantization& q, const Entering& entering) {
    if (q.keeps_f32()) return;
    const Values& x = exact_.at({Pass::forward, Signal::x_out}, -1);
    const Values& g = exact_.at({Pass::backward, Signal::x_out}, -1);
    const Tensor::Index tokens = spec_.input.tokens;
    const auto width = x.size() / static_cast<std::size_t>(tokens);
    const double factor = spec_.model.embedding.scale;
    Values rows = entering.drawn;
    for (double& r : rows) r /= factor;
    Values v = square_errors(ops_.from_host(tokens, static_cast<Tensor::Index>(width), DType::f64, rows), q);
    for (std::size_t first = 0; first < x.size(); first += width) {
      const double norm = square_of_norm(x, entering.planted, first, width);
      for (std::size_t i = first; i < first + width; ++i) {
        const double times = rows[i] == 0.0 ? 0.0 : entering.planted[i] / rows[i];  // a zero is rounded without error
        v[i] = v[i] * times * times * norm;
      }
    }
    budget_.add(v, g);
  }
  /// The square of what an embedding norm multiplies one token's entries by, but for the error's part along the token.
  [[nodiscard]] double square_of_norm(const Values& x, const Values& read, std::size_t first, std::size_t width) const {
    if (!spec_.model.embedding_norm) return 1.0;
    const auto begin = read.begin() + static_cast<long>(first);
    const auto end = begin + static_cast<long>(width);
    const bool centred = subtracts_mean(spec_.model.norm);
    const double mean = centred ? std::accumulate(begin, end, 0.0) / static_cast<double>(width) : 0.0;
    double out = 0.0;
    double in = 0.0;
    for (std::size_t i = first; i < first + width; ++i) {
      out += x[i] * x[i];
      in += (read[i] - mean) * (read[i] - mean);
    }
    return in > 0.0 ? out / in : 0.0;
  }
  /// A signal that a matrix reads, which something else holds already.
  void read(int l, Signal signal) {
    const std::optional<Part> held = part_of(spec_.model, {l, signal, Pass::forward});
    if (held && keeps(holding_.of(*held), holding_.of(Part::inputs))) return;
    rounded(Part::inputs, l, signal);
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
                                   const Profile& weights, const Holding& holding, const Entering& entering) {
  const int sublayers = spec.model.sublayers();
  if (holding.sums) return Values(static_cast<std::size_t>(sublayers) + 1, std::numeric_limits<double>::quiet_NaN());
  NoiseSum noise(ops, spec, exact, weights, holding);
  noise.add_input(entering);
  Values sqnr{noise.sqnr_behind(-1)};
  for (int l = 0; l < sublayers; ++l) {
    noise.add_sublayer(l);
    sqnr.push_back(noise.sqnr_behind(l));
  }
  return sqnr;
}

}  // namespace periscope::formats
