#pragma once

#include <cusolverDn.h>

#include <mutex>

#include "sim/cuda/execution.h"
#include "sim/cuda/on_device/library.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Cholesky factorisation by cuSOLVER, in double.
class CholeskySolver {
 public:
  explicit CholeskySolver(cudaStream_t stream);
  CholeskySolver(const CholeskySolver&) = delete;
  CholeskySolver& operator=(const CholeskySolver&) = delete;
  ~CholeskySolver();

  void cholesky(const Execution& execution, double* gram, Index n, int* info);

 private:
  Library library_;
  decltype(&cusolverDnCreate) create_;
  decltype(&cusolverDnDestroy) destroy_;
  decltype(&cusolverDnSetStream) set_stream_;
  decltype(&cusolverDnDpotrf_bufferSize) factor_size_;
  decltype(&cusolverDnDpotrf) factor_;

  std::mutex mutex_;
  cusolverDnHandle_t handle_ = nullptr;
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
