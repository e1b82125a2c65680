#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <mutex>
#include <optional>

#include "sim/cuda/element.h"
#include "sim/cuda/on_device/library.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Cholesky factorisation by cuSOLVER and triangular solves by cuBLAS, in double.
class CholeskySolver {
 public:
  explicit CholeskySolver(cudaStream_t stream);
  CholeskySolver(const CholeskySolver&) = delete;
  CholeskySolver& operator=(const CholeskySolver&) = delete;
  ~CholeskySolver();

  /// Returns the size of the workspace of `cholesky`, in doubles.
  [[nodiscard]] int work_size(double* gram, Index n);
  void cholesky(double* gram, Index n, double* work, int size, int* info);
  void solve_lower(const double* lower, Index n, double* x, Index cols);

 private:
  Library blas_;
  Library solver_;
  decltype(&cublasCreate_v2) create_blas_;
  decltype(&cublasDestroy_v2) destroy_blas_;
  decltype(&cublasSetStream_v2) set_blas_stream_;
  decltype(&cublasDtrsm_v2) solve_;
  decltype(&cusolverDnCreate) create_solver_;
  decltype(&cusolverDnDestroy) destroy_solver_;
  decltype(&cusolverDnSetStream) set_solver_stream_;
  decltype(&cusolverDnDpotrf_bufferSize) factor_size_;
  decltype(&cusolverDnDpotrf) factor_;

  std::mutex mutex_;
  cublasHandle_t blas_handle_ = nullptr;
  cusolverDnHandle_t solver_handle_ = nullptr;
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
