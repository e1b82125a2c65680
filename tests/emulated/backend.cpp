#include "tests/emulated/backend.h"

#include <vector>

#include "sim/core/storage.h"
#include "tests/emulated/ops.h"

namespace periscope {
namespace {

using emulated::Index;
using emulated::raise;

/// Forwards every op of a list to another backend.
template <class List>
class Forwards;
template <>
class Forwards<OpList<>> : public Backend {
 protected:
  explicit Forwards(const Backend& inner) : inner_(inner) {}
  const Backend& inner_;
};
template <class First, class... Rest>
class Forwards<OpList<First, Rest...>> : public Forwards<OpList<Rest...>> {
 public:
  using Forwards<OpList<Rest...>>::run;
  void run(const First& op) const override { this->inner_.run(op); }

 protected:
  using Forwards<OpList<Rest...>>::Forwards;
};

/// Rounds forward ops only; gradients and statistics are computed by `inner` from the stored values.
class EmulatedBackend final : public Forwards<AllOps> {
 public:
  EmulatedBackend(const Backend& inner, const Emulation& emulation, Watch* watch)
      : Forwards(inner), watch_(watch), format_(emulation.arithmetic.stored), ops_(emulation) {}

  [[nodiscard]] std::string_view name() const override { return "emulated"; }
  [[nodiscard]] Device device() const override { return Device::host; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::f64; }

 protected:
  [[nodiscard]] Tensor do_allocate(Index rows, Index cols, DType dtype) const override {
    return host_tensor(rows, cols, dtype);
  }
  using Forwards::run;
  void run(const op::Constant& o) const override { inner_.run(op::Constant{ops_.stored(o.value), o.y}); }
  void run(const op::FromHost& o) const override { run_rounded(o); }
  void run(const op::FromRows& o) const override { run_rounded(o); }
  void run(const op::Normal& o) const override { run_rounded(o); }
  void run(const op::Gather& o) const override { run_rounded(o); }
  void run(const op::LinearDrawn& o) const override {
    run(op::Linear{o.x, normal(o.w.rows, o.w.cols, o.x.dtype(), o.w.key, o.w.stddev), o.y});
  }
  void run(const op::LinearDrawnBackwardInput& o) const override {
    run(op::LinearBackwardInput{o.dy, normal(o.w.rows, o.w.cols, o.dy.dtype(), o.w.key, o.w.stddev), o.dx});
  }

  void run(const op::Linear& o) const override {
    ops_.linear(elements<double>(o.x), elements<double>(o.w), elements<double>(o.y), o.x.rows(), o.x.cols(),
                o.w.rows());
    report(&o.w);
  }
  void run(const op::Axpby& o) const override {
    const double* y = elements<double>(o.y);
    each(o.x, o.z, [&](Index i, double v) { return ops_.plus(ops_.addend(o.a, v), ops_.addend(o.b, y[i])); });
    report(nullptr);
  }
  void run(const op::Scale& o) const override {
    each(o.x, o.y, [&](Index, double v) { return ops_.times(o.a, v); });
  }
  void run(const op::Multiply& o) const override {
    const double* factor = elements<double>(o.y);
    each(o.x, o.z, [&](Index i, double v) { return ops_.stored(v * factor[i]); });
  }
  void run(const op::AddRow& o) const override {
    const double* shift = elements<double>(o.row);
    each(o.x, o.y, [&](Index i, double v) { return ops_.plus(v, shift[i % o.x.cols()]); });
  }

  void run(const op::Norm& o) const override {
    const Index n = o.gain.cols();
    const double* gain = elements<double>(o.gain);
    const double* bias = o.bias.empty() ? nullptr : elements<double>(o.bias);
    const double alpha = o.alpha.empty() ? 1.0 : elements<double>(o.alpha)[0];
    for (Index part = 0; part < o.x.size(); part += n) {
      const double* x = elements<double>(o.x) + part;
      double* y = elements<double>(o.y) + part;
      if (is_pointwise(o.kind)) {
        ops_.pointwise_norm(o.kind, x, gain, bias, alpha, y, n);
      } else {
        ops_.norm(o.kind, x, gain, bias, o.eps, y, n);
      }
    }
    report(&o.gain);
  }
  void run(const op::Rope& o) const override {
    const Index tokens = o.x.rows() / o.sequences;
    const Index head_dim = o.x.cols() / o.heads;
    for (Index first = 0; first < o.x.size(); first += head_dim) {
      ops_.rope(elements<double>(o.x) + first, elements<double>(o.y) + first, head_dim,
                o.offset + first / o.x.cols() % tokens, o.frequencies);
    }
  }
  void run(const op::Attention& o) const override {
    const std::vector<double> per_head(static_cast<std::size_t>(o.shape.heads), 0.0);
    emulated::HeadPeaks peaks{.dots = per_head, .cap_inputs = per_head};
    ops_.attention(elements<double>(o.q), elements<double>(o.k), elements<double>(o.v), elements<double>(o.a.mixed),
                   elements<double>(o.a.scores), o.q.rows(), o.k.rows(), o.shape, peaks);
    report(nullptr);
    report(nullptr, Signal::dots, peaks.dots);
    if (o.shape.scores.soft_cap > 0.0) report(nullptr, Signal::cap_inputs, peaks.cap_inputs);
  }
  void run(const op::Activate& o) const override {
    each(o.x, o.y, [&](Index, double v) { return ops_.activation(o.kind, v); });
  }
  void run(const op::Gated& o) const override {
    std::vector<double> activated(static_cast<std::size_t>(o.gate.cols()), 0.0);
    const double* factor = elements<double>(o.up);
    each(o.gate, o.y, [&](Index i, double v) {
      const double gate = ops_.activation(o.kind, v);
      raise(activated[static_cast<std::size_t>(i % o.gate.cols())], gate);
      return ops_.stored(gate * factor[i]);
    });
    report(nullptr, Signal::gated, activated);
  }
  void run(const op::SoftCap& o) const override {
    each(o.x, o.y, [&](Index, double v) { return ops_.soft_cap(o.cap, v, ops_.peak(Signal::cap_inputs)); });
    report(nullptr);
  }

 private:
  /// Sets y_i = function(i, x_i); y may be x.
  template <class Function>
  static void each(const Tensor& x, Tensor& y, const Function& function) {
    const double* in = elements<double>(x);
    double* out = elements<double>(y);
    for (Index i = 0; i < x.size(); ++i) out[i] = function(i, in[i]);
  }
  template <class Op>
  void run_rounded(const Op& o) const {
    inner_.run(o);
    o.y = round_to_stored(inner_, o.y, format_);
  }
  void report(const Tensor* parameter, Signal signal, std::span<const double> magnitudes) const {
    if (watch_ != nullptr) watch_->on_inner(parameter, signal, magnitudes);
  }
  /// Reports the peak of every signal that has had a magnitude above 0 in this op.
  void report(const Tensor* parameter) const {
    const emulated::Ops::Peaks peaks = ops_.take_peaks();
    for (std::size_t i = 0; i < peaks.size(); ++i) {
      if (peaks[i] > 0.0) report(parameter, static_cast<Signal>(i), {&peaks[i], 1});
    }
  }

  Watch* watch_;
  NumberFormat format_;
  mutable emulated::Ops ops_;  ///< buffers, peaks and the state of shuffled orders
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
