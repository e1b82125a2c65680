#include "tests/emulated/backend.h"

#include <utility>
#include <vector>

#include "sim/core/storage.h"
#include "tests/emulated/ops.h"

namespace periscope {
namespace {

using emulated::Index;
using emulated::raise;

class EmulatedBackend final : public Backend {
 public:
  EmulatedBackend(const Backend& inner, const Emulation& emulation, Watch* watch)
      : inner_(inner), watch_(watch), format_(emulation.arithmetic.stored), ops_(emulation) {}

  [[nodiscard]] std::string_view name() const override { return "emulated"; }
  [[nodiscard]] Device device() const override { return Device::host; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::f64; }

 protected:
  [[nodiscard]] Tensor do_allocate(Index rows, Index cols, DType dtype) const override {
    return host_tensor(rows, cols, dtype);
  }
  void do_constant(double value, Tensor& y) const override {
    y = inner_.constant(y.rows(), y.cols(), y.dtype(), ops_.stored(value));
  }
  void do_from_host(std::span<const double> values, Tensor& y) const override {
    y = rounded(inner_.from_host(y.rows(), y.cols(), y.dtype(), values));
  }
  void do_from_rows(const FillRows& fill, Tensor& y) const override {
    y = rounded(inner_.from_rows(y.rows(), y.cols(), y.dtype(), fill));
  }
  [[nodiscard]] std::vector<std::vector<double>> do_to_host(std::span<const Tensor> tensors) const override {
    return inner_.to_host(tensors);
  }
  void do_normal(StreamKey key, double stddev, Tensor& y) const override {
    y = rounded(inner_.normal(y.rows(), y.cols(), y.dtype(), key, stddev));
  }
  void do_cast(const Tensor& x, Tensor& y) const override { y = inner_.cast(x, y.dtype()); }
  void do_gather(const Tensor& table, std::span<const int> ids, Tensor& y) const override {
    y = rounded(inner_.gather(table, ids));
  }

  void do_replace_rows(const Tensor& x, Index first, const Tensor& rows, Tensor& y) const override {
    y = inner_.replace_rows(x, first, rows);
  }

  void do_linear(const Tensor& x, const Tensor& w, Tensor& y) const override {
    std::vector<double> partial(static_cast<std::size_t>(w.rows()), 0.0);
    std::vector<double> product = partial;
    ops_.linear(elements<double>(x), elements<double>(w), elements<double>(y), x.rows(), x.cols(), w.rows(), partial,
                product);
    tell(&w, Inner::partial_sum, partial);
    tell(&w, Inner::product, product);
  }
  void do_axpby(double a, const Tensor& x, double b, const Tensor& y, Tensor& z) const override {
    std::vector<double> scaled(static_cast<std::size_t>(x.cols()), 0.0);
    const double* u = elements<double>(x);
    const double* v = elements<double>(y);
    double* out = elements<double>(z);
    for (Index i = 0; i < x.size(); ++i) {
      const double ax = ops_.times(a, u[i]);
      const double by = ops_.times(b, v[i]);
      if (a != 1.0) raise(scaled[static_cast<std::size_t>(i % x.cols())], ax);
      if (b != 1.0) raise(scaled[static_cast<std::size_t>(i % x.cols())], by);
      out[i] = ops_.plus(ax, by);
    }
    if (a != 1.0 || b != 1.0) tell(nullptr, Inner::scaled, scaled);
  }
  void do_scale(double a, const Tensor& x, Tensor& y) const override {
    each(x, y, [&](Index, double v) { return ops_.times(a, v); });
  }
  void do_multiply(const Tensor& x, const Tensor& y, Tensor& z) const override {
    const double* factor = elements<double>(y);
    each(x, z, [&](Index i, double v) { return ops_.stored(v * factor[i]); });
  }
  void do_add_row(const Tensor& x, const Tensor& row, Tensor& y) const override {
    const double* shift = elements<double>(row);
    each(x, y, [&](Index i, double v) { return ops_.plus(v, shift[i % x.cols()]); });
  }

  void do_norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, const Tensor& alpha, double eps,
               Tensor& y) const override {
    const Index n = gain.cols();
    const auto width = static_cast<std::size_t>(n);
    const std::vector<double> zeros(width, 0.0);
    emulated::NormPeaks peaks{.centred = zeros, .bend_input = zeros, .normalised = zeros, .gained = zeros};
    const double* shift = bias.empty() ? nullptr : elements<double>(bias);
    if (is_pointwise(kind)) {
      const double factor = alpha.empty() ? 1.0 : elements<double>(alpha)[0];
      for (Index part = 0; part < x.size(); part += n) {
        ops_.pointwise_norm(kind, elements<double>(x) + part, elements<double>(gain), shift, factor,
                            elements<double>(y) + part, n, peaks);
      }
      if (!alpha.empty()) {
        tell(&gain, Inner::bend_input, peaks.bend_input);
        tell(&gain, Inner::normalised, peaks.normalised);
      }
      tell(&gain, Inner::gained, peaks.gained);
      return;
    }
    for (Index part = 0; part < x.size(); part += n) {
      ops_.norm(kind, elements<double>(x) + part, elements<double>(gain), shift, eps, elements<double>(y) + part, n,
                peaks);
    }
    if (subtracts_mean(kind)) {
      tell(&gain, Inner::mean_sum, {&peaks.mean_sum, 1});
      tell(&gain, Inner::centred, peaks.centred);
    }
    tell(&gain, Inner::square, {&peaks.square, 1});
    tell(&gain, Inner::square_sum, {&peaks.square_sum, 1});
    tell(&gain, Inner::reciprocal, {&peaks.reciprocal, 1});
    tell(&gain, Inner::normalised, peaks.normalised);
    tell(&gain, Inner::gained, peaks.gained);
  }
  void do_rope(const Tensor& x, int heads, int sequences, std::span<const double> frequencies, Index offset,
               Tensor& y) const override {
    const Index tokens = x.rows() / sequences;
    const Index head_dim = x.cols() / heads;
    std::vector<double> turned(static_cast<std::size_t>(x.cols()), 0.0);
    for (Index first = 0; first < x.size(); first += head_dim) {
      ops_.rope(elements<double>(x) + first, elements<double>(y) + first, head_dim, offset + first / x.cols() % tokens,
                frequencies, turned.data() + first % x.cols());
    }
    tell(nullptr, Inner::turned, turned);
  }
  void do_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape,
                    Attended& a) const override {
    const std::vector<double> per_head(static_cast<std::size_t>(shape.heads), 0.0);
    emulated::AttentionPeaks peaks{.dot_sum = per_head,
                                   .dot = per_head,
                                   .scaled = per_head,
                                   .capped = per_head,
                                   .score = per_head,
                                   .denominator_sum = per_head,
                                   .mixed_sum = std::vector<double>(static_cast<std::size_t>(q.cols()), 0.0)};
    ops_.attention(elements<double>(q), elements<double>(k), elements<double>(v), elements<double>(a.mixed),
                   elements<double>(a.scores), q.rows(), k.rows(), shape, peaks);
    tell(nullptr, Inner::dot_sum, peaks.dot_sum);
    tell(nullptr, Inner::dot, peaks.dot);
    tell(nullptr, Inner::scaled_dot, peaks.scaled);
    tell(nullptr, Inner::capped, peaks.capped);
    tell(nullptr, Inner::score, peaks.score);
    tell(nullptr, Inner::denominator_sum, peaks.denominator_sum);
    tell(nullptr, Inner::mixed_sum, peaks.mixed_sum);
  }
  void do_activate(Activation kind, const Tensor& x, Tensor& y) const override {
    each(x, y, [&](Index, double v) { return ops_.activation(kind, v); });
  }
  void do_gated(Activation kind, const Tensor& gate, const Tensor& up, Tensor& y) const override {
    std::vector<double> activated(static_cast<std::size_t>(gate.cols()), 0.0);
    const double* factor = elements<double>(up);
    each(gate, y, [&](Index i, double v) {
      const double opened = ops_.activation(kind, v);
      raise(activated[static_cast<std::size_t>(i % gate.cols())], opened);
      return ops_.stored(opened * factor[i]);
    });
    tell(nullptr, Inner::activated, activated);
  }
  void do_soft_cap(double cap, const Tensor& x, Tensor& y) const override {
    std::vector<double> inside(static_cast<std::size_t>(x.cols()), 0.0);
    each(x, y,
         [&](Index i, double v) { return ops_.soft_cap(cap, v, inside[static_cast<std::size_t>(i % x.cols())]); });
    tell(nullptr, Inner::capped, inside);
  }

  // Gradients and statistics are those of real arithmetic on what was stored.
  void do_column_sums(const Tensor& x, Tensor& sums) const override { sums = inner_.column_sums(x); }
  void do_linear_backward_input(const Tensor& dy, const Tensor& w, Tensor& dx) const override {
    dx = inner_.linear_backward_input(dy, w);
  }
  void do_linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw) const override {
    dw = inner_.linear_backward_weight(dy, x);
  }
  void do_linear_weight_square(const Tensor& dy, const Tensor& x, Tensor& square) const override {
    square = inner_.linear_weight_square(dy, x);
  }
  void do_linear_drawn(const Tensor& x, const DrawnMatrix& w, Tensor& y) const override {
    do_linear(x, normal(w.rows, w.cols, x.dtype(), w.key, w.stddev), y);
  }
  void do_linear_drawn_backward_input(const Tensor& dy, const DrawnMatrix& w, Tensor& dx) const override {
    do_linear_backward_input(dy, normal(w.rows, w.cols, dy.dtype(), w.key, w.stddev), dx);
  }
  void do_scatter_add(const Tensor& dy, std::span<const int> ids, Tensor& sums) const override {
    sums = inner_.scatter_add(dy, ids, sums.rows());
  }
  void do_row_basis(const Tensor& x, RowBasis& b) const override { b = inner_.row_basis(x, !b.basis.empty()); }
  void do_norm_backward(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& alpha, const Tensor& dy,
                        double eps, NormGradient& g) const override {
    g = inner_.norm_backward(kind, x, gain, dy, eps, static_cast<int>(x.cols() / gain.cols()), alpha);
  }
  void do_rope_backward(const Tensor& dy, int heads, int sequences, std::span<const double> frequencies,
                        Tensor& dx) const override {
    dx = inner_.rope_backward(dy, heads, sequences, frequencies);
  }
  void do_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy,
                             const AttentionShape& shape, AttentionGradient& g) const override {
    g = inner_.attention_backward(q, k, v, dy, shape);
  }
  void do_activate_backward(Activation kind, const Tensor& x, const Tensor& dy, Tensor& dx) const override {
    dx = inner_.activate_backward(kind, x, dy);
  }
  void do_gated_backward(Activation kind, const Tensor& gate, const Tensor& up, const Tensor& dy,
                         GatedGradient& g) const override {
    g = inner_.gated_backward(kind, gate, up, dy);
  }
  void do_soft_cap_backward(double cap, const Tensor& x, const Tensor& dy, Tensor& dx) const override {
    dx = inner_.soft_cap_backward(cap, x, dy);
  }
  void do_cross_entropy(const Tensor& logits, std::span<const int> labels, CrossEntropy& out) const override {
    out = inner_.cross_entropy(logits, labels);
  }
  void do_token_losses(const Tensor& logits, std::span<const int> labels, Tensor& losses) const override {
    losses = inner_.from_host(1, logits.rows(), DType::f64, inner_.token_losses(logits, labels));
  }
  void do_adamw(AdamState& state, const Tensor& gradient, const AdamRule& rule) const override {
    state = inner_.adamw(std::move(state), gradient, rule);
  }
  void do_measure(const Tensor& x, const StatisticsRequest& request, const StatisticsLayout& /*layout*/,
                  Tensor& numbers) const override {
    numbers = inner_.measure(x, request);
  }

 private:
  /// y_i = function(i, x_i); y may be x.
  template <class Function>
  static void each(const Tensor& x, Tensor& y, const Function& function) {
    const double* in = elements<double>(x);
    double* out = elements<double>(y);
    for (Index i = 0; i < x.size(); ++i) out[i] = function(i, in[i]);
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
