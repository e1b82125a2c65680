#include "sim/cpu/backend.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "sim/core/host_tensor.h"
#include "sim/cpu/kernels.h"
#include "sim/random/philox.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

/// Calls body with a value of the element type, so that a generic lambda can name it.
template <class Body>
auto dispatch(DType dtype, const Body& body) {
  return dtype == DType::f64 ? body(double{}) : body(float{});
}

class CpuBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] bool supports(DType /*dtype*/) const override { return true; }

  [[nodiscard]] Tensor constant(Index rows, Index cols, DType dtype, double value) const override {
    Tensor y = host_tensor(rows, cols, dtype);
    dispatch(dtype, [&]<class T>(T) { std::fill_n(y.data<T>(), y.size(), static_cast<T>(value)); });
    return y;
  }
  [[nodiscard]] Tensor from_host(Index rows, Index cols, DType dtype, std::span<const double> values) const override {
    assert(static_cast<Index>(values.size()) == rows * cols);
    Tensor y = host_tensor(rows, cols, dtype);
    dispatch(dtype, [&]<class T>(T) {
      std::ranges::transform(values, y.data<T>(), [](double v) { return static_cast<T>(v); });
    });
    return y;
  }
  [[nodiscard]] Tensor from_rows(Index rows, Index cols, DType dtype, const FillRows& fill) const override {
    constexpr Index piece = Index{1} << 18;  // elements
    const Index step = std::max<Index>(1, piece / std::max<Index>(1, cols));
    std::vector<double> values(static_cast<std::size_t>(std::min(step, rows) * cols));
    Tensor y = host_tensor(rows, cols, dtype);
    for (Index first = 0; first < rows; first += step) {
      const std::span<double> part(values.data(), static_cast<std::size_t>(std::min(step, rows - first) * cols));
      fill(first, std::min(step, rows - first), part);
      dispatch(dtype, [&]<class T>(T) {
        std::ranges::transform(part, y.data<T>() + first * cols, [](double v) { return static_cast<T>(v); });
      });
    }
    return y;
  }
  [[nodiscard]] std::vector<double> to_host(const Tensor& x) const override {
    return dispatch(x.dtype(), [&]<class T>(T) { return std::vector<double>(x.data<T>(), x.data<T>() + x.size()); });
  }
  [[nodiscard]] Tensor normal(Index rows, Index cols, DType dtype, StreamKey key, double stddev) const override {
    Tensor y = host_tensor(rows, cols, dtype);
    constexpr Index piece = 16 * static_cast<Index>(normal_block);
    dispatch(dtype, [&]<class T>(T) {
      T* out = y.data<T>();
#pragma omp parallel for schedule(static)
      for (Index first = 0; first < y.size(); first += piece) {
        const auto count = static_cast<std::size_t>(std::min(piece, y.size() - first));
        fill_normal<T>(key, static_cast<std::uint64_t>(first), stddev, {out + first, count});
      }
    });
    return y;
  }

  [[nodiscard]] Tensor linear(const Tensor& x, const Tensor& w) const override {
    assert(x.cols() == w.cols());
    Tensor y = host_tensor(x.rows(), w.rows(), x.dtype());
    dispatch(x.dtype(),
             [&]<class T>(T) { cpu::linear(x.data<T>(), w.data<T>(), y.data<T>(), x.rows(), x.cols(), w.rows()); });
    return y;
  }
  [[nodiscard]] Tensor axpby(double a, const Tensor& x, double b, const Tensor& y) const override {
    assert(x.rows() == y.rows() && x.cols() == y.cols());
    return filled_like(x, [&]<class T>(T* z) { cpu::axpby(a, x.data<T>(), b, y.data<T>(), z, x.size()); });
  }
  [[nodiscard]] Tensor scale(double a, const Tensor& x) const override {
    return filled_like(x, [&]<class T>(T* y) { cpu::scale(a, x.data<T>(), y, x.size()); });
  }
  [[nodiscard]] Tensor add_row(const Tensor& x, const Tensor& row) const override {
    assert(row.rows() == 1 && row.cols() == x.cols());
    return filled_like(x, [&]<class T>(T* y) { cpu::add_row(x.data<T>(), row.data<T>(), y, x.rows(), x.cols()); });
  }
  [[nodiscard]] Tensor column_sums(const Tensor& x) const override {
    Tensor sums = host_tensor(1, x.cols(), x.dtype());
    dispatch(x.dtype(), [&]<class T>(T) { cpu::column_sums(x.data<T>(), sums.data<T>(), x.rows(), x.cols()); });
    return sums;
  }
  [[nodiscard]] Tensor gather(const Tensor& table, std::span<const int> ids) const override {
    Tensor y = host_tensor(static_cast<Index>(ids.size()), table.cols(), table.dtype());
    dispatch(table.dtype(), [&]<class T>(T) {
      T* out = y.data<T>();
      for (const int id : ids) out = std::copy_n(table.data<T>() + id * table.cols(), table.cols(), out);
    });
    return y;
  }

  [[nodiscard]] Tensor norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                            int groups) const override {
    assert(gain.cols() * groups == x.cols());
    return filled_like(x, [&]<class T>(T* y) {
      const T* shift = bias.empty() ? nullptr : bias.data<T>();
      cpu::norm(kind, x.data<T>(), gain.data<T>(), shift, eps, y, x.rows() * groups, gain.cols());
    });
  }
  [[nodiscard]] Tensor rope(const Tensor& x, int heads, int sequences,
                            std::span<const double> frequencies) const override {
    return filled_like(x, [&]<class T>(T* y) {
      cpu::rope(x.data<T>(), y, x.rows(), heads, x.cols() / heads, x.rows() / sequences, frequencies);
    });
  }
  [[nodiscard]] Attended attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionShape& shape) const override {
    Attended a{.mixed = like(q), .scores = host_tensor(q.rows(), shape.heads, q.dtype())};
    dispatch(q.dtype(), [&]<class T>(T) {
      cpu::attention(q.data<T>(), k.data<T>(), v.data<T>(), a.mixed.data<T>(), a.scores.data<T>(), q.rows(), shape);
    });
    return a;
  }
  [[nodiscard]] Tensor activate(Activation kind, const Tensor& x) const override {
    return filled_like(x, [&]<class T>(T* y) { cpu::activate(kind, x.data<T>(), y, x.size()); });
  }
  [[nodiscard]] Tensor gated(Activation kind, const Tensor& gate, const Tensor& up) const override {
    return filled_like(gate, [&]<class T>(T* y) { cpu::gated(kind, gate.data<T>(), up.data<T>(), y, gate.size()); });
  }

  [[nodiscard]] Tensor soft_cap(double cap, const Tensor& x) const override {
    return filled_like(x, [&]<class T>(T* y) { cpu::soft_cap(cap, x.data<T>(), y, x.size()); });
  }

  [[nodiscard]] Tensor linear_backward_input(const Tensor& dy, const Tensor& w) const override {
    assert(dy.cols() == w.rows());
    Tensor dx = host_tensor(dy.rows(), w.cols(), dy.dtype());
    dispatch(dy.dtype(), [&]<class T>(T) {
      cpu::linear_backward_input(dy.data<T>(), w.data<T>(), dx.data<T>(), dy.rows(), w.cols(), w.rows());
    });
    return dx;
  }
  [[nodiscard]] Tensor linear_backward_weight(const Tensor& dy, const Tensor& x) const override {
    assert(dy.rows() == x.rows());
    Tensor dw = host_tensor(dy.cols(), x.cols(), dy.dtype());
    dispatch(dy.dtype(), [&]<class T>(T) {
      cpu::linear_backward_weight(dy.data<T>(), x.data<T>(), dw.data<T>(), x.rows(), x.cols(), dy.cols());
    });
    return dw;
  }
  [[nodiscard]] Tensor scatter_add(const Tensor& dy, std::span<const int> ids, Index rows) const override {
    assert(static_cast<Index>(ids.size()) == dy.rows());
    Tensor sums = host_tensor(rows, dy.cols(), dy.dtype());
    dispatch(dy.dtype(), [&]<class T>(T) { cpu::scatter_add(dy.data<T>(), ids, sums.data<T>(), rows, dy.cols()); });
    return sums;
  }
  [[nodiscard]] NormGradient norm_backward(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& dy,
                                           double eps, int groups) const override {
    assert(gain.cols() * groups == x.cols());
    NormGradient g{.dx = like(x), .dgain = like(gain), .dbias = like(gain)};
    dispatch(x.dtype(), [&]<class T>(T) {
      cpu::norm_backward(kind, x.data<T>(), gain.data<T>(), dy.data<T>(), eps, g.dx.data<T>(), g.dgain.data<T>(),
                         g.dbias.data<T>(), x.rows() * groups, gain.cols());
    });
    return g;
  }
  [[nodiscard]] Tensor rope_backward(const Tensor& dy, int heads, int sequences,
                                     std::span<const double> frequencies) const override {
    return filled_like(dy, [&]<class T>(T* dx) {
      cpu::rope_backward(dy.data<T>(), dx, dy.rows(), heads, dy.cols() / heads, dy.rows() / sequences, frequencies);
    });
  }
  [[nodiscard]] AttentionGradient attention_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                     const Tensor& dy, const AttentionShape& shape) const override {
    AttentionGradient g{.dq = like(q), .dk = like(k), .dv = like(v)};
    dispatch(q.dtype(), [&]<class T>(T) {
      cpu::attention_backward(q.data<T>(), k.data<T>(), v.data<T>(), dy.data<T>(), g.dq.data<T>(), g.dk.data<T>(),
                              g.dv.data<T>(), q.rows(), shape);
    });
    return g;
  }
  [[nodiscard]] Tensor activate_backward(Activation kind, const Tensor& x, const Tensor& dy) const override {
    return filled_like(x,
                       [&]<class T>(T* dx) { cpu::activate_backward(kind, x.data<T>(), dy.data<T>(), dx, x.size()); });
  }
  [[nodiscard]] GatedGradient gated_backward(Activation kind, const Tensor& gate, const Tensor& up,
                                             const Tensor& dy) const override {
    GatedGradient g{.dgate = like(gate), .dup = like(gate)};
    dispatch(gate.dtype(), [&]<class T>(T) {
      cpu::gated_backward(kind, gate.data<T>(), up.data<T>(), dy.data<T>(), g.dgate.data<T>(), g.dup.data<T>(),
                          gate.size());
    });
    return g;
  }
  [[nodiscard]] Tensor soft_cap_backward(double cap, const Tensor& x, const Tensor& dy) const override {
    return filled_like(x,
                       [&]<class T>(T* dx) { cpu::soft_cap_backward(cap, x.data<T>(), dy.data<T>(), dx, x.size()); });
  }
  [[nodiscard]] CrossEntropy cross_entropy(const Tensor& logits, std::span<const int> labels) const override {
    assert(static_cast<Index>(labels.size()) == logits.rows());
    CrossEntropy out{.loss = 0.0, .dlogits = like(logits)};
    out.loss = dispatch(logits.dtype(), [&]<class T>(T) {
      return cpu::cross_entropy(logits.data<T>(), labels, out.dlogits.data<T>(), logits.cols());
    });
    return out;
  }

  [[nodiscard]] RowMoments row_moments(const Tensor& x) const override {
    return dispatch(x.dtype(), [&]<class T>(T) { return cpu::row_moments(x.data<T>(), x.rows(), x.cols()); });
  }
  [[nodiscard]] std::vector<double> row_dots(const Tensor& x, const Tensor& y) const override {
    return dispatch(x.dtype(), [&]<class T>(T) { return cpu::row_dots(x.data<T>(), y.data<T>(), x.rows(), x.cols()); });
  }
  [[nodiscard]] double token_cosine(const Tensor& x, int sequences) const override {
    return dispatch(x.dtype(),
                    [&]<class T>(T) { return cpu::token_cosine(x.data<T>(), x.rows(), x.cols(), sequences); });
  }
  [[nodiscard]] std::vector<double> column_maxima(const Tensor& x) const override {
    return dispatch(x.dtype(), [&]<class T>(T) { return cpu::column_maxima(x.data<T>(), x.rows(), x.cols()); });
  }
  [[nodiscard]] std::vector<double> top_magnitudes(const Tensor& x, int count) const override {
    return dispatch(x.dtype(), [&]<class T>(T) { return cpu::top_magnitudes(x.data<T>(), x.size(), count); });
  }
  [[nodiscard]] std::vector<Entry> top_entries(const Tensor& x, int count) const override {
    return dispatch(x.dtype(), [&]<class T>(T) { return cpu::top_entries(x.data<T>(), x.rows(), x.cols(), count); });
  }
  [[nodiscard]] double median_magnitude(const Tensor& x) const override {
    return dispatch(x.dtype(), [&]<class T>(T) { return cpu::median_magnitude(x.data<T>(), x.size()); });
  }
  [[nodiscard]] std::vector<double> token_losses(const Tensor& logits, std::span<const int> labels) const override {
    assert(static_cast<Index>(labels.size()) == logits.rows());
    return dispatch(logits.dtype(),
                    [&]<class T>(T) { return cpu::token_losses(logits.data<T>(), labels, logits.cols()); });
  }

 private:
  static Tensor like(const Tensor& x) { return host_tensor(x.rows(), x.cols(), x.dtype()); }
  /// A new tensor of x's shape and dtype whose elements `fill` writes.
  template <class Fill>
  static Tensor filled_like(const Tensor& x, const Fill& fill) {
    Tensor y = like(x);
    dispatch(x.dtype(), [&]<class T>(T) { fill(y.data<T>()); });
    return y;
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace periscope
