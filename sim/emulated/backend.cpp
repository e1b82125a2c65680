#include "sim/emulated/backend.h"

#include <cassert>
#include <vector>

#include "sim/emulated/ops.h"

namespace periscope {
namespace {

using emulated::Index;
using emulated::raise;

class EmulatedBackend final : public Backend {
 public:
  EmulatedBackend(const Backend& inner, const Emulation& emulation, Watch* watch)
      : inner_(inner), watch_(watch), format_(emulation.arithmetic.stored), ops_(emulation) {}

  [[nodiscard]] std::string_view name() const override { return "emulated"; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::f64; }

  [[nodiscard]] Tensor constant(Index rows, Index cols, DType dtype, double value) const override {
    return inner_.constant(rows, cols, dtype, ops_.stored(value));
  }
  [[nodiscard]] Tensor from_host(Index rows, Index cols, DType dtype, std::span<const double> values) const override {
    return rounded(inner_.from_host(rows, cols, dtype, values));
  }
  [[nodiscard]] Tensor from_rows(Index rows, Index cols, DType dtype, const FillRows& fill) const override {
    return rounded(inner_.from_rows(rows, cols, dtype, fill));
  }
  [[nodiscard]] std::vector<double> to_host(const Tensor& x) const override { return inner_.to_host(x); }
  [[nodiscard]] Tensor normal(Index rows, Index cols, DType dtype, StreamKey key, double stddev) const override {
    return rounded(inner_.normal(rows, cols, dtype, key, stddev));
  }
  [[nodiscard]] Tensor gather(const Tensor& table, std::span<const int> ids) const override {
    return rounded(inner_.gather(table, ids));
  }

  [[nodiscard]] Tensor linear(const Tensor& x, const Tensor& w) const override {
    assert(x.cols() == w.cols());
    Tensor y = empty(x.rows(), w.rows());
    std::vector<double> partial(static_cast<std::size_t>(w.rows()), 0.0);
    std::vector<double> product = partial;
    ops_.linear(x.data<double>(), w.data<double>(), y.data<double>(), x.rows(), x.cols(), w.rows(), partial, product);
    tell(&w, Inner::partial_sum, partial);
    tell(&w, Inner::product, product);
    return y;
  }
  [[nodiscard]] Tensor axpby(double a, const Tensor& x, double b, const Tensor& y) const override {
    assert(x.rows() == y.rows() && x.cols() == y.cols());
    std::vector<double> scaled(static_cast<std::size_t>(x.cols()), 0.0);
    Tensor z = empty(x.rows(), x.cols());
    for (Index i = 0; i < x.size(); ++i) {
      const double ax = ops_.times(a, x.data<double>()[i]);
      const double by = ops_.times(b, y.data<double>()[i]);
      if (a != 1.0) raise(scaled[static_cast<std::size_t>(i % x.cols())], ax);
      if (b != 1.0) raise(scaled[static_cast<std::size_t>(i % x.cols())], by);
      z.data<double>()[i] = ops_.plus(ax, by);
    }
    if (a != 1.0 || b != 1.0) tell(nullptr, Inner::scaled, scaled);
    return z;
  }
  [[nodiscard]] Tensor scale(double a, const Tensor& x) const override {
    return each(x, [&](double v) { return ops_.times(a, v); });
  }
  [[nodiscard]] Tensor add_row(const Tensor& x, const Tensor& row) const override {
    assert(row.rows() == 1 && row.cols() == x.cols());
    Tensor y = empty(x.rows(), x.cols());
    for (Index i = 0; i < x.size(); ++i) {
      y.data<double>()[i] = ops_.plus(x.data<double>()[i], row.data<double>()[i % x.cols()]);
    }
    return y;
  }

  [[nodiscard]] Tensor norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                            int groups) const override {
    assert(gain.cols() * groups == x.cols());
    const Index n = gain.cols();
    const auto width = static_cast<std::size_t>(n);
    const std::vector<double> zeros(width, 0.0);
    emulated::NormPeaks peaks{.centred = zeros, .normalised = zeros, .gained = zeros};
    Tensor y = empty(x.rows(), x.cols());
    for (Index part = 0; part < x.rows() * groups; ++part) {
      ops_.norm(kind, x.data<double>() + part * n, gain.data<double>(), bias.empty() ? nullptr : bias.data<double>(),
                eps, y.data<double>() + part * n, n, peaks);
    }
    if (kind == NormKind::layer) {
      tell(&gain, Inner::mean_sum, {&peaks.mean_sum, 1});
      tell(&gain, Inner::centred, peaks.centred);
    }
    tell(&gain, Inner::square, {&peaks.square, 1});
    tell(&gain, Inner::square_sum, {&peaks.square_sum, 1});
    tell(&gain, Inner::reciprocal, {&peaks.reciprocal, 1});
    tell(&gain, Inner::normalised, peaks.normalised);
    tell(&gain, Inner::gained, peaks.gained);
    return y;
  }
  [[nodiscard]] Tensor rope(const Tensor& x, int heads, int sequences,
                            std::span<const double> frequencies) const override {
    const Index tokens = x.rows() / sequences;
    const Index head_dim = x.cols() / heads;
    std::vector<double> turned(static_cast<std::size_t>(x.cols()), 0.0);
    Tensor y = empty(x.rows(), x.cols());
    for (Index row = 0; row < x.rows(); ++row) {
      for (Index column = 0; column < x.cols(); column += head_dim) {
        const Index offset = row * x.cols() + column;
        ops_.rope(x.data<double>() + offset, y.data<double>() + offset, head_dim, row % tokens, frequencies,
                  turned.data() + column);
      }
    }
    tell(nullptr, Inner::turned, turned);
    return y;
  }
  [[nodiscard]] Attended attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionShape& shape) const override {
    Attended a{.mixed = empty(q.rows(), q.cols()), .scores = empty(q.rows(), shape.heads)};
    const std::vector<double> per_head(static_cast<std::size_t>(shape.heads), 0.0);
    emulated::AttentionPeaks peaks{.dot_sum = per_head,
                                   .dot = per_head,
                                   .scaled = per_head,
                                   .capped = per_head,
                                   .score = per_head,
                                   .denominator_sum = per_head,
                                   .mixed_sum = std::vector<double>(static_cast<std::size_t>(q.cols()), 0.0)};
    ops_.attention(q.data<double>(), k.data<double>(), v.data<double>(), a.mixed.data<double>(),
                   a.scores.data<double>(), q.rows(), shape, peaks);
    tell(nullptr, Inner::dot_sum, peaks.dot_sum);
    tell(nullptr, Inner::dot, peaks.dot);
    tell(nullptr, Inner::scaled_dot, peaks.scaled);
    tell(nullptr, Inner::capped, peaks.capped);
    tell(nullptr, Inner::score, peaks.score);
    tell(nullptr, Inner::denominator_sum, peaks.denominator_sum);
    tell(nullptr, Inner::mixed_sum, peaks.mixed_sum);
    return a;
  }
  [[nodiscard]] Tensor activate(Activation kind, const Tensor& x) const override {
    return each(x, [&](double v) { return ops_.activation(kind, v); });
  }
  [[nodiscard]] Tensor gated(Activation kind, const Tensor& gate, const Tensor& up) const override {
    std::vector<double> activated(static_cast<std::size_t>(gate.cols()), 0.0);
    Tensor y = empty(gate.rows(), gate.cols());
    for (Index i = 0; i < gate.size(); ++i) {
      const double opened = ops_.activation(kind, gate.data<double>()[i]);
      raise(activated[static_cast<std::size_t>(i % gate.cols())], opened);
      y.data<double>()[i] = ops_.stored(opened * up.data<double>()[i]);
    }
    tell(nullptr, Inner::activated, activated);
    return y;
  }
  [[nodiscard]] Tensor soft_cap(double cap, const Tensor& x) const override {
    std::vector<double> inner(static_cast<std::size_t>(x.cols()), 0.0);
    Tensor y = empty(x.rows(), x.cols());
    for (Index i = 0; i < x.size(); ++i) {
      y.data<double>()[i] = ops_.soft_cap(cap, x.data<double>()[i], inner[static_cast<std::size_t>(i % x.cols())]);
    }
    tell(nullptr, Inner::capped, inner);
    return y;
  }

  // Gradients and statistics are those of real arithmetic on what was stored.
  [[nodiscard]] Tensor column_sums(const Tensor& x) const override { return inner_.column_sums(x); }
  [[nodiscard]] Tensor linear_backward_input(const Tensor& dy, const Tensor& w) const override {
    return inner_.linear_backward_input(dy, w);
  }
  [[nodiscard]] Tensor linear_backward_weight(const Tensor& dy, const Tensor& x) const override {
    return inner_.linear_backward_weight(dy, x);
  }
  [[nodiscard]] Tensor scatter_add(const Tensor& dy, std::span<const int> ids, Index rows) const override {
    return inner_.scatter_add(dy, ids, rows);
  }
  [[nodiscard]] NormGradient norm_backward(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& dy,
                                           double eps, int groups) const override {
    return inner_.norm_backward(kind, x, gain, dy, eps, groups);
  }
  [[nodiscard]] Tensor rope_backward(const Tensor& dy, int heads, int sequences,
                                     std::span<const double> frequencies) const override {
    return inner_.rope_backward(dy, heads, sequences, frequencies);
  }
  [[nodiscard]] AttentionGradient attention_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                     const Tensor& dy, const AttentionShape& shape) const override {
    return inner_.attention_backward(q, k, v, dy, shape);
  }
  [[nodiscard]] Tensor activate_backward(Activation kind, const Tensor& x, const Tensor& dy) const override {
    return inner_.activate_backward(kind, x, dy);
  }
  [[nodiscard]] GatedGradient gated_backward(Activation kind, const Tensor& gate, const Tensor& up,
                                             const Tensor& dy) const override {
    return inner_.gated_backward(kind, gate, up, dy);
  }
  [[nodiscard]] Tensor soft_cap_backward(double cap, const Tensor& x, const Tensor& dy) const override {
    return inner_.soft_cap_backward(cap, x, dy);
  }
  [[nodiscard]] CrossEntropy cross_entropy(const Tensor& logits, std::span<const int> labels) const override {
    return inner_.cross_entropy(logits, labels);
  }
  [[nodiscard]] RowMoments row_moments(const Tensor& x) const override { return inner_.row_moments(x); }
  [[nodiscard]] std::vector<double> row_dots(const Tensor& x, const Tensor& y) const override {
    return inner_.row_dots(x, y);
  }
  [[nodiscard]] double token_cosine(const Tensor& x, int sequences) const override {
    return inner_.token_cosine(x, sequences);
  }
  [[nodiscard]] std::vector<double> column_maxima(const Tensor& x) const override { return inner_.column_maxima(x); }
  [[nodiscard]] std::vector<double> top_magnitudes(const Tensor& x, int count) const override {
    return inner_.top_magnitudes(x, count);
  }
  [[nodiscard]] std::vector<Entry> top_entries(const Tensor& x, int count) const override {
    return inner_.top_entries(x, count);
  }
  [[nodiscard]] double median_magnitude(const Tensor& x) const override { return inner_.median_magnitude(x); }
  [[nodiscard]] std::vector<double> token_losses(const Tensor& logits, std::span<const int> labels) const override {
    return inner_.token_losses(logits, labels);
  }

 private:
  [[nodiscard]] Tensor empty(Index rows, Index cols) const { return inner_.constant(rows, cols, DType::f64, 0.0); }
  template <class Function>
  [[nodiscard]] Tensor each(const Tensor& x, const Function& function) const {
    Tensor y = empty(x.rows(), x.cols());
    for (Index i = 0; i < x.size(); ++i) y.data<double>()[i] = function(x.data<double>()[i]);
    return y;
  }
  [[nodiscard]] Tensor rounded(const Tensor& x) const { return round_to_stored(inner_, x, format_); }
  void tell(const Tensor* parameter, Inner inner, std::span<const double> magnitudes) const {
    if (watch_ != nullptr) watch_->on_inner(parameter, inner, magnitudes);
  }

  const Backend& inner_;
  Watch* watch_;
  NumberFormat format_;
  mutable emulated::Ops ops_;  ///< holds room for terms and the state of shuffled orders
};

}  // namespace

Tensor round_to_stored(const Backend& backend, const Tensor& x, const NumberFormat& format) {
  const Rounding rounding(format);
  std::vector<double> values = backend.to_host(x);
  for (double& v : values) v = rounding(v);
  return backend.from_host(x.rows(), x.cols(), DType::f64, values);
}

std::unique_ptr<Backend> make_emulated_backend(const Backend& inner, const Emulation& emulation, Watch* watch) {
  return std::make_unique<EmulatedBackend>(inner, emulation, watch);
}

}  // namespace periscope
