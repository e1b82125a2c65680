#include "sim/reference/backend.h"

#include <cassert>
#include <vector>

#include "sim/core/host_tensor.h"
#include "sim/random/philox.h"
#include "sim/reference/ops.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

Tensor like(const Tensor& x) { return host_tensor(x.rows(), x.cols(), DType::f64); }

Tensor zeros(Index rows, Index cols) {
  Tensor y = host_tensor(rows, cols, DType::f64);
  for (Index i = 0; i < y.size(); ++i) y.data<double>()[i] = 0.0;
  return y;
}

class ReferenceBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const override { return "reference"; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::f64; }

  [[nodiscard]] Tensor constant(Index rows, Index cols, DType /*dtype*/, double value) const override {
    Tensor y = host_tensor(rows, cols, DType::f64);
    for (Index i = 0; i < y.size(); ++i) y.data<double>()[i] = value;
    return y;
  }
  [[nodiscard]] Tensor from_host(Index rows, Index cols, DType /*dtype*/,
                                 std::span<const double> values) const override {
    assert(static_cast<Index>(values.size()) == rows * cols);
    Tensor y = host_tensor(rows, cols, DType::f64);
    for (Index i = 0; i < y.size(); ++i) y.data<double>()[i] = values[static_cast<std::size_t>(i)];
    return y;
  }
  [[nodiscard]] Tensor from_rows(Index rows, Index cols, DType dtype, const FillRows& fill) const override {
    std::vector<double> values(static_cast<std::size_t>(rows * cols));
    fill(0, rows, values);
    return from_host(rows, cols, dtype, values);
  }
  [[nodiscard]] std::vector<double> to_host(const Tensor& x) const override {
    return {x.data<double>(), x.data<double>() + x.size()};
  }
  [[nodiscard]] Tensor normal(Index rows, Index cols, DType /*dtype*/, StreamKey key, double stddev) const override {
    Tensor y = host_tensor(rows, cols, DType::f64);
    fill_normal<double>(key, 0, stddev, {y.data<double>(), static_cast<std::size_t>(y.size())});
    return y;
  }

  [[nodiscard]] Tensor linear(const Tensor& x, const Tensor& w) const override {
    assert(x.cols() == w.cols());
    Tensor y = host_tensor(x.rows(), w.rows(), DType::f64);
    reference::linear(x.data<double>(), w.data<double>(), y.data<double>(), x.rows(), x.cols(), w.rows());
    return y;
  }
  [[nodiscard]] Tensor axpby(double a, const Tensor& x, double b, const Tensor& y) const override {
    assert(x.rows() == y.rows() && x.cols() == y.cols());
    Tensor z = like(x);
    for (Index i = 0; i < x.size(); ++i) z.data<double>()[i] = a * x.data<double>()[i] + b * y.data<double>()[i];
    return z;
  }
  [[nodiscard]] Tensor scale(double a, const Tensor& x) const override {
    Tensor y = like(x);
    for (Index i = 0; i < x.size(); ++i) y.data<double>()[i] = a * x.data<double>()[i];
    return y;
  }
  [[nodiscard]] Tensor add_row(const Tensor& x, const Tensor& row) const override {
    assert(row.rows() == 1 && row.cols() == x.cols());
    Tensor y = like(x);
    for (Index i = 0; i < x.size(); ++i) y.data<double>()[i] = x.data<double>()[i] + row.data<double>()[i % x.cols()];
    return y;
  }
  [[nodiscard]] Tensor column_sums(const Tensor& x) const override {
    Tensor sums = zeros(1, x.cols());
    for (Index i = 0; i < x.size(); ++i) sums.data<double>()[i % x.cols()] += x.data<double>()[i];
    return sums;
  }
  [[nodiscard]] Tensor gather(const Tensor& table, std::span<const int> ids) const override {
    Tensor y = host_tensor(static_cast<Index>(ids.size()), table.cols(), DType::f64);
    for (Index t = 0; t < y.rows(); ++t) {
      for (Index j = 0; j < y.cols(); ++j) {
        y.data<double>()[t * y.cols() + j] = table.data<double>()[ids[static_cast<std::size_t>(t)] * y.cols() + j];
      }
    }
    return y;
  }

  [[nodiscard]] Tensor norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                            int groups) const override {
    assert(gain.cols() * groups == x.cols());
    Tensor y = like(x);
    const double* shift = bias.empty() ? nullptr : bias.data<double>();
    for (Index part = 0; part < x.rows() * groups; ++part) {
      const Index offset = part * gain.cols();
      reference::norm(kind, x.data<double>() + offset, gain.data<double>(), shift, eps, y.data<double>() + offset,
                      gain.cols());
    }
    return y;
  }
  [[nodiscard]] Tensor rope(const Tensor& x, int heads, int sequences,
                            std::span<const double> frequencies) const override {
    Tensor y = like(x);
    const Index tokens = x.rows() / sequences;
    const Index head_dim = x.cols() / heads;
    for (Index row = 0; row < x.rows(); ++row) {
      for (int head = 0; head < heads; ++head) {
        const Index offset = row * x.cols() + head * head_dim;
        reference::rope(x.data<double>() + offset, y.data<double>() + offset, head_dim, row % tokens, frequencies);
      }
    }
    return y;
  }
  [[nodiscard]] Attended attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionShape& shape) const override {
    Attended a{.mixed = like(q), .scores = host_tensor(q.rows(), shape.heads, DType::f64)};
    reference::attention(q.data<double>(), k.data<double>(), v.data<double>(), a.mixed.data<double>(),
                         a.scores.data<double>(), q.rows(), shape);
    return a;
  }
  [[nodiscard]] Tensor activate(Activation kind, const Tensor& x) const override {
    Tensor y = like(x);
    for (Index i = 0; i < x.size(); ++i) y.data<double>()[i] = reference::activation(kind, x.data<double>()[i]);
    return y;
  }
  [[nodiscard]] Tensor gated(Activation kind, const Tensor& gate, const Tensor& up) const override {
    Tensor y = like(gate);
    for (Index i = 0; i < gate.size(); ++i) {
      y.data<double>()[i] = reference::activation(kind, gate.data<double>()[i]) * up.data<double>()[i];
    }
    return y;
  }

  [[nodiscard]] Tensor soft_cap(double cap, const Tensor& x) const override {
    Tensor y = like(x);
    for (Index i = 0; i < x.size(); ++i) y.data<double>()[i] = reference::soft_cap(cap, x.data<double>()[i]);
    return y;
  }

  [[nodiscard]] Tensor linear_backward_input(const Tensor& dy, const Tensor& w) const override {
    assert(dy.cols() == w.rows());
    Tensor dx = host_tensor(dy.rows(), w.cols(), DType::f64);
    reference::linear_backward_input(dy.data<double>(), w.data<double>(), dx.data<double>(), dy.rows(), w.cols(),
                                     w.rows());
    return dx;
  }
  [[nodiscard]] Tensor linear_backward_weight(const Tensor& dy, const Tensor& x) const override {
    assert(dy.rows() == x.rows());
    Tensor dw = host_tensor(dy.cols(), x.cols(), DType::f64);
    reference::linear_backward_weight(dy.data<double>(), x.data<double>(), dw.data<double>(), x.rows(), x.cols(),
                                      dy.cols());
    return dw;
  }
  [[nodiscard]] Tensor scatter_add(const Tensor& dy, std::span<const int> ids, Index rows) const override {
    assert(static_cast<Index>(ids.size()) == dy.rows());
    Tensor sums = zeros(rows, dy.cols());
    for (Index t = 0; t < dy.rows(); ++t) {
      for (Index j = 0; j < dy.cols(); ++j) {
        sums.data<double>()[ids[static_cast<std::size_t>(t)] * dy.cols() + j] += dy.data<double>()[t * dy.cols() + j];
      }
    }
    return sums;
  }
  [[nodiscard]] NormGradient norm_backward(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& dy,
                                           double eps, int groups) const override {
    assert(gain.cols() * groups == x.cols());
    NormGradient g{.dx = like(x), .dgain = zeros(1, gain.cols()), .dbias = zeros(1, gain.cols())};
    for (Index part = 0; part < x.rows() * groups; ++part) {
      const Index offset = part * gain.cols();
      reference::norm_backward(kind, x.data<double>() + offset, gain.data<double>(), dy.data<double>() + offset, eps,
                               g.dx.data<double>() + offset, g.dgain.data<double>(), g.dbias.data<double>(),
                               gain.cols());
    }
    return g;
  }
  [[nodiscard]] Tensor rope_backward(const Tensor& dy, int heads, int sequences,
                                     std::span<const double> frequencies) const override {
    Tensor dx = like(dy);
    const Index tokens = dy.rows() / sequences;
    const Index head_dim = dy.cols() / heads;
    for (Index row = 0; row < dy.rows(); ++row) {
      for (int head = 0; head < heads; ++head) {
        const Index offset = row * dy.cols() + head * head_dim;
        reference::rope_backward(dy.data<double>() + offset, dx.data<double>() + offset, head_dim, row % tokens,
                                 frequencies);
      }
    }
    return dx;
  }
  [[nodiscard]] AttentionGradient attention_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                     const Tensor& dy, const AttentionShape& shape) const override {
    AttentionGradient g{
        .dq = zeros(q.rows(), q.cols()), .dk = zeros(k.rows(), k.cols()), .dv = zeros(v.rows(), v.cols())};
    reference::attention_backward(q.data<double>(), k.data<double>(), v.data<double>(), dy.data<double>(),
                                  g.dq.data<double>(), g.dk.data<double>(), g.dv.data<double>(), q.rows(), shape);
    return g;
  }
  [[nodiscard]] Tensor activate_backward(Activation kind, const Tensor& x, const Tensor& dy) const override {
    Tensor dx = like(x);
    for (Index i = 0; i < x.size(); ++i) {
      dx.data<double>()[i] = reference::activation_slope(kind, x.data<double>()[i]) * dy.data<double>()[i];
    }
    return dx;
  }
  [[nodiscard]] GatedGradient gated_backward(Activation kind, const Tensor& gate, const Tensor& up,
                                             const Tensor& dy) const override {
    GatedGradient g{.dgate = like(gate), .dup = like(gate)};
    for (Index i = 0; i < gate.size(); ++i) {
      const double x = gate.data<double>()[i];
      g.dgate.data<double>()[i] = reference::activation_slope(kind, x) * up.data<double>()[i] * dy.data<double>()[i];
      g.dup.data<double>()[i] = reference::activation(kind, x) * dy.data<double>()[i];
    }
    return g;
  }
  [[nodiscard]] Tensor soft_cap_backward(double cap, const Tensor& x, const Tensor& dy) const override {
    Tensor dx = like(x);
    for (Index i = 0; i < x.size(); ++i) {
      dx.data<double>()[i] = reference::soft_cap_slope(cap, x.data<double>()[i]) * dy.data<double>()[i];
    }
    return dx;
  }
  [[nodiscard]] CrossEntropy cross_entropy(const Tensor& logits, std::span<const int> labels) const override {
    assert(static_cast<Index>(labels.size()) == logits.rows());
    CrossEntropy out{.loss = 0.0, .dlogits = like(logits)};
    out.loss = reference::cross_entropy(logits.data<double>(), labels.data(), out.dlogits.data<double>(), logits.rows(),
                                        logits.cols());
    return out;
  }

  [[nodiscard]] RowMoments row_moments(const Tensor& x) const override {
    return reference::row_moments(x.data<double>(), x.rows(), x.cols());
  }
  [[nodiscard]] std::vector<double> row_dots(const Tensor& x, const Tensor& y) const override {
    return reference::row_dots(x.data<double>(), y.data<double>(), x.rows(), x.cols());
  }
  [[nodiscard]] double token_cosine(const Tensor& x, int sequences) const override {
    return reference::token_cosine(x.data<double>(), x.rows(), x.cols(), sequences);
  }
  [[nodiscard]] std::vector<double> column_maxima(const Tensor& x) const override {
    return reference::column_maxima(x.data<double>(), x.rows(), x.cols());
  }
  [[nodiscard]] std::vector<double> top_magnitudes(const Tensor& x, int count) const override {
    return reference::top_magnitudes(x.data<double>(), x.size(), count);
  }
  [[nodiscard]] std::vector<Entry> top_entries(const Tensor& x, int count) const override {
    return reference::top_entries(x.data<double>(), x.rows(), x.cols(), count);
  }
  [[nodiscard]] double median_magnitude(const Tensor& x) const override {
    return reference::median_magnitude(x.data<double>(), x.size());
  }
  [[nodiscard]] std::vector<double> token_losses(const Tensor& logits, std::span<const int> labels) const override {
    assert(static_cast<Index>(labels.size()) == logits.rows());
    return reference::token_losses(logits.data<double>(), labels.data(), logits.rows(), logits.cols());
  }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace periscope
