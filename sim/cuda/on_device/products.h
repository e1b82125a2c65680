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

/// Matrix products with cuBLASLt.
class Products {
 public:
  /// Runs products on `stream`. `tf32` selects TF32 for products of f32 matrices.
  Products(cudaStream_t stream, bool tf32);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products();

  void run(const Product& p);

 private:
  using Key = std::array<Index, 18>;
  struct Descriptors;
  [[nodiscard]] cublasLtMatmulAlgo_t algorithm(const Product& p, const Descriptors& descriptors);
  void create_descriptors(const Product& p, Descriptors& descriptors) const;

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
  std::map<Key, cublasLtMatmulAlgo_t> algorithms_;  // cached, since the choice takes longer than a small product
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
