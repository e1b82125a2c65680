#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "sim/core/composed.h"
#include "sim/core/storage.h"
#include "sim/cuda/execution.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_WAY {

/// The elements of a tensor, in device memory.
template <class T>
[[nodiscard]] const T* data(const Tensor& x) {
  return static_cast<const T*>(TensorMemory::address(x, dtype_of<T>));
}
template <class T>
[[nodiscard]] T* data(Tensor& x) {
  return static_cast<T*>(TensorMemory::address(x, dtype_of<T>));
}

/// The ops as kernels, in files by kind: kernels above the ruled line, the functions that start them below. Narrow
/// elements are computed in float and rounded when they are stored; statistics and norms add up in double.
class CudaBackend final : public ComposedBackend {
 public:
  explicit CudaBackend(const Options& options) : execution_(options) {}
  [[nodiscard]] std::string_view name() const override;
  [[nodiscard]] Device device() const override { return execution_.device(); }
  [[nodiscard]] bool supports(DType /*dtype*/) const override { return true; }

 protected:
  [[nodiscard]] Tensor do_allocate(Index rows, Index cols, DType dtype) const override;
  void do_constant(double value, Tensor& y) const override;
  void do_from_host(std::span<const double> values, Tensor& y) const override;
  void do_from_rows(const FillRows& fill, Tensor& y) const override;
  [[nodiscard]] std::vector<std::vector<double>> do_to_host(std::span<const Tensor> tensors) const override;
  void do_normal(StreamKey key, double stddev, Tensor& y) const override;
  void do_cast(const Tensor& x, Tensor& y) const override;

  void do_linear(const Tensor& x, const Tensor& w, Tensor& y) const override;
  void do_linear_backward_input(const Tensor& dy, const Tensor& w, Tensor& dx) const override;
  void do_linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw) const override;
  void do_linear_weight_square(const Tensor& dy, const Tensor& x, Tensor& square) const override;
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

  void do_rope_backward(const Tensor& dy, int heads, int sequences, std::span<const double> frequencies,
                        Tensor& dx) const override;
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

 private:
  /// Rope's frequencies in device memory, where they stay for the next call.
  [[nodiscard]] std::shared_ptr<double> frequencies_on_device(std::span<const double> frequencies) const;

  Execution execution_;
  mutable std::mutex mutex_;
  mutable std::vector<double> frequencies_;
  mutable std::shared_ptr<double> frequencies_there_;
};

}  // namespace PERISCOPE_CUDA_WAY
}  // namespace periscope::cuda
