#pragma once

#include <string_view>

#include "sim/core/composed.h"
#include "sim/core/storage.h"
#include "sim/cuda/execution.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Returns the elements of a tensor in device memory.
template <class T>
[[nodiscard]] const T* data(const Tensor& x) {
  return static_cast<const T*>(TensorMemory::address(x, dtype_of<T>));
}
template <class T>
[[nodiscard]] T* data(Tensor& x) {
  return static_cast<T*>(TensorMemory::address(x, dtype_of<T>));
}

/// Implements the ops with CUDA kernels. Ops on elements narrower than float compute in float and round when storing;
/// statistics and norms accumulate in double.
class CudaBackend final : public ComposedBackend {
 public:
  explicit CudaBackend(const Options& options) : execution_(options) {}
  [[nodiscard]] std::string_view name() const override;
  [[nodiscard]] Device device() const override { return execution_.device(); }
  [[nodiscard]] bool supports(DType /*dtype*/) const override { return true; }

  using ComposedBackend::run;
  void run(const op::Constant& o) const override;
  void run(const op::FromHost& o) const override;
  void run(const op::FromRows& o) const override;
  void run(const op::ToHost& o) const override;
  void run(const op::Normal& o) const override;
  void run(const op::Cast& o) const override;
  void run(const op::Linear& o) const override;
  void run(const op::LinearBackwardInput& o) const override;
  void run(const op::LinearBackwardWeight& o) const override;
  void run(const op::LinearWeightSquare& o) const override;
  void run(const op::Axpby& o) const override;
  void run(const op::Scale& o) const override;
  void run(const op::Multiply& o) const override;
  void run(const op::AddRow& o) const override;
  void run(const op::ColumnSums& o) const override;
  void run(const op::Gather& o) const override;
  void run(const op::ReplaceRows& o) const override;
  void run(const op::ScatterAdd& o) const override;
  void run(const op::RowBasis& o) const override;
  void run(const op::Activate& o) const override;
  void run(const op::ActivateBackward& o) const override;
  void run(const op::Gated& o) const override;
  void run(const op::GatedBackward& o) const override;
  void run(const op::SoftCap& o) const override;
  void run(const op::SoftCapBackward& o) const override;
  void run(const op::Norm& o) const override;
  void run(const op::NormBackward& o) const override;
  void run(const op::RopeBackward& o) const override;
  void run(const op::Rope& o) const override;
  void run(const op::Attention& o) const override;
  void run(const op::AttentionBackward& o) const override;
  void run(const op::CrossEntropy& o) const override;
  void run(const op::TokenLosses& o) const override;
  void run(const op::Adamw& o) const override;
  void run(const op::Measure& o) const override;

 protected:
  [[nodiscard]] Tensor do_allocate(Index rows, Index cols, DType dtype) const override;
  void before(const OpFacts& op) const override {
    if (execution_.options().profile != nullptr) execution_.options().profile->op = op.name;
  }

 private:
  Execution execution_;
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
