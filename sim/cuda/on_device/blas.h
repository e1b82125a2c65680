#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <mutex>

#include "sim/cuda/execution.h"
#include "sim/cuda/on_device/library.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Matrix products and triangular solves with cuBLAS and Cholesky factors with cuSOLVER, on one stream. Thread-safe.
class Blas {
 public:
  /// `tf32` selects TF32 for products of f32 matrices.
  Blas(cudaStream_t stream, bool tf32);
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas();

  void product(const Product& p);
  void solve_lower(const double* lower, Index n, double* x, Index cols);
  void cholesky(const Execution& execution, double* gram, Index n, int* info);

 private:
  void load_solver();

  Library library_;
  decltype(&cublasCreate_v2) create_;
  decltype(&cublasDestroy_v2) destroy_;
  decltype(&cublasSetStream_v2) set_stream_;
  decltype(&cublasSetMathMode) set_math_mode_;
  decltype(&cublasGemmStridedBatchedEx_64) multiply_;
  decltype(&cublasDtrsm_v2_64) solve_;
  decltype(&cusolverDnDestroy) destroy_solver_ = nullptr;
  decltype(&cusolverDnDpotrf_bufferSize) factor_size_ = nullptr;
  decltype(&cusolverDnDpotrf) factor_ = nullptr;

  cudaStream_t stream_;
  bool tf32_;
  std::mutex mutex_;
  cublasHandle_t handle_ = nullptr;
  cusolverDnHandle_t solver_ = nullptr;  // created on first use, since loading cuSOLVER is slow
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
