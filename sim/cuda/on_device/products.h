#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>
#include <map>
#include <mutex>

#include "sim/cuda/execution.h"
#include "sim/cuda/on_device/library.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// Matrix products by cuBLASLt.
class Products {
 public:
  /// Products go to `stream`. Sums of f32 are in f32 of f32 operands, unless `tf32`.
  Products(cudaStream_t stream, bool tf32);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products();

  void run(const Product& p);

 private:
  using Key = std::array<Index, 18>;
  struct Described;
  [[nodiscard]] cublasLtMatmulAlgo_t algorithm(const Product& p, const Described& described);
  void describe(const Product& p, Described& described) const;

  Library library_;
  decltype(&cublasLtCreate) create_;
  decltype(&cublasLtDestroy) destroy_;
  decltype(&cublasLtMatmulDescCreate) create_description_;
  decltype(&cublasLtMatmulDescDestroy) destroy_description_;
  decltype(&cublasLtMatmulDescSetAttribute) set_description_;
  decltype(&cublasLtMatrixLayoutCreate) create_layout_;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout_;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout_;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference_;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference_;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference_;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic_;
  decltype(&cublasLtMatmul) multiply_;

  cudaStream_t stream_;
  bool tf32_;
  std::mutex mutex_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Key, cublasLtMatmulAlgo_t> algorithms_;  // a choice takes longer than a small product
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
