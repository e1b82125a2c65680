#pragma once

#include <Eigen/Core>
#include <algorithm>

#include "sim/base/first_exception.h"
#include "sim/core/composed.h"
#include "sim/core/storage.h"

namespace periscope {

/// The ops with Eigen and OpenMP, in files by kind: templates over the element type above, then the functions that
/// call them with the tensors' type.
class CpuBackend final : public ComposedBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] Device device() const override { return Device::host; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::f64 || dtype == DType::f32; }

 protected:
  [[nodiscard]] Tensor do_allocate(Index rows, Index cols, DType dtype) const override;
  void do_constant(double value, Tensor& y) const override;
  void do_from_host(std::span<const double> values, Tensor& y) const override;
  void do_from_rows(const FillRows& fill, Tensor& y) const override;
  [[nodiscard]] std::vector<std::vector<double>> do_to_host(std::span<const Tensor> tensors) const override;
  void do_normal(StreamKey key, double stddev, Tensor& y) const override;

  void do_linear(const Tensor& x, const Tensor& w, Tensor& y) const override;
  void do_linear_backward_input(const Tensor& dy, const Tensor& w, Tensor& dx) const override;
  void do_linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw) const override;
  void do_linear_weight_square(const Tensor& dy, const Tensor& x, Tensor& square) const override;
  void do_linear_drawn(const Tensor& x, const DrawnMatrix& w, Tensor& y) const override;
  void do_linear_drawn_backward_input(const Tensor& dy, const DrawnMatrix& w, Tensor& dx) const override;
  void do_axpby(double a, const Tensor& x, double b, const Tensor& y, Tensor& z) const override;
  void do_scale(double a, const Tensor& x, Tensor& y) const override;
  void do_multiply(const Tensor& x, const Tensor& y, Tensor& z) const override;
  void do_add_row(const Tensor& x, const Tensor& row, Tensor& y) const override;
  void do_column_sums(const Tensor& x, Tensor& sums) const override;
  void do_gather(const Tensor& table, std::span<const int> ids, Tensor& y) const override;
  void do_replace_rows(const Tensor& x, Index first, const Tensor& rows, Tensor& y) const override;
  void do_scatter_add(const Tensor& dy, std::span<const int> ids, Tensor& sums) const override;

  void do_row_basis(const Tensor& x, RowBasis& b) const override;

  void do_activate(Activation kind, const Tensor& x, Tensor& y) const override;
  void do_activate_backward(Activation kind, const Tensor& x, const Tensor& dy, Tensor& dx) const override;
  void do_gated(Activation kind, const Tensor& gate, const Tensor& up, Tensor& y) const override;
  void do_gated_backward(Activation kind, const Tensor& gate, const Tensor& up, const Tensor& dy,
                         GatedGradient& g) const override;
  void do_soft_cap(double cap, const Tensor& x, Tensor& y) const override;
  void do_soft_cap_backward(double cap, const Tensor& x, const Tensor& dy, Tensor& dx) const override;

  void do_norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, const Tensor& alpha, double eps,
               Tensor& y) const override;
  void do_norm_backward(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& alpha, const Tensor& dy,
                        double eps, NormGradient& g) const override;

  void do_rope(const Tensor& x, int heads, int sequences, std::span<const double> frequencies, Index offset,
               Tensor& y) const override;
  void do_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape,
                    Attended& a) const override;
  void do_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy,
                             const AttentionShape& shape, AttentionGradient& g) const override;

  void do_cross_entropy(const Tensor& logits, std::span<const int> labels, CrossEntropy& out) const override;
  void do_token_losses(const Tensor& logits, std::span<const int> labels, Tensor& losses) const override;
  void do_adamw(AdamState& state, const Tensor& gradient, const AdamRule& rule) const override;
  void do_measure(const Tensor& x, const StatisticsRequest& request, const StatisticsLayout& layout,
                  Tensor& numbers) const override;
};

namespace cpu {

using Index = Tensor::Index;

template <class T>
using ConstRow = Eigen::Map<const Eigen::Array<T, 1, Eigen::Dynamic>>;
template <class T>
using Row = Eigen::Map<Eigen::Array<T, 1, Eigen::Dynamic>>;

/// An op on fewer elements runs on one thread: starting a team costs more, above all on a busy machine. Results
/// do not depend on it.
inline constexpr Index worth_threads = 4096;

/// Calls body(first, count) for consecutive chunks of 0 … size−1, on all threads. The chunks are a function
/// of the size alone.
template <class Body>
void for_chunks(Index size, const Body& body, Index chunk = 4096) {
  FirstException failure;
#pragma omp parallel for schedule(static) if (size > chunk)
  for (Index first = 0; first < size; first += chunk) {
    failure.run([&] { body(first, std::min(chunk, size - first)); });
  }
  failure.rethrow();
}

/// Calls body with a value of x's element type, so that a generic lambda can name it.
template <class Body>
void with_type_of(const Tensor& x, const Body& body) {
  if (x.dtype() == DType::f64) return body(double{});
  body(float{});
}

}  // namespace cpu
}  // namespace periscope
