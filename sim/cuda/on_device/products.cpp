#include "sim/cuda/on_device/products.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "sim/cuda/on_device/errors.h"

#define PERISCOPE_TEXT_OF(x) #x
#define PERISCOPE_TEXT(x) PERISCOPE_TEXT_OF(x)

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20U;  // recommended by the cuBLAS manual for Hopper

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDA_R_64F;
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
  }
  return CUDA_R_64F;
}

cublasComputeType_t compute_type(DType operands, bool tf32) {
  if (operands == DType::f64) return CUBLAS_COMPUTE_64F;
  return tf32 && operands == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// Returns the largest power of two, at most 256, that divides an address.
std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(256, address & (~address + 1)));
}

}  // namespace

// cuBLASLt is column-major, so it sees row-major matrices as their transposes. It therefore computes
// cᵀ = op(b)ᵀ op(a)ᵀ: the first factor is b, and the transposition flags are unchanged.
struct Products::Descriptors {
  explicit Descriptors(const Products& from) : products(from) {}
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  ~Descriptors() {
    if (description != nullptr) (void)products.destroy_description_(description);
    for (cublasLtMatrixLayout_t layout : {first, second, result}) {
      if (layout != nullptr) (void)products.destroy_layout_(layout);
    }
  }

  const Products& products;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t first = nullptr;
  cublasLtMatrixLayout_t second = nullptr;
  cublasLtMatrixLayout_t result = nullptr;
};

Products::Products(cudaStream_t stream, bool tf32)
    : library_("libcublasLt.so." PERISCOPE_TEXT(CUBLAS_VER_MAJOR)), stream_(stream), tf32_(tf32) {
  library_.find(create_, "cublasLtCreate");
  library_.find(destroy_, "cublasLtDestroy");
  library_.find(create_description_, "cublasLtMatmulDescCreate");
  library_.find(destroy_description_, "cublasLtMatmulDescDestroy");
  library_.find(set_description_, "cublasLtMatmulDescSetAttribute");
  library_.find(create_layout_, "cublasLtMatrixLayoutCreate");
  library_.find(destroy_layout_, "cublasLtMatrixLayoutDestroy");
  library_.find(set_layout_, "cublasLtMatrixLayoutSetAttribute");
  library_.find(create_preference_, "cublasLtMatmulPreferenceCreate");
  library_.find(destroy_preference_, "cublasLtMatmulPreferenceDestroy");
  library_.find(set_preference_, "cublasLtMatmulPreferenceSetAttribute");
  library_.find(heuristic_, "cublasLtMatmulAlgoGetHeuristic");
  library_.find(multiply_, "cublasLtMatmul");
  check(create_(&handle_), "cuBLASLt initialization");
  check(cudaMalloc(&workspace_, workspace_bytes), "allocating the cuBLASLt workspace");
}

Products::~Products() {
  (void)cudaFree(workspace_);
  (void)destroy_(handle_);
}

void Products::create_descriptors(const Product& p, Descriptors& d) const {
  const cudaDataType_t operand = cuda_type(p.operands);
  const cudaDataType_t result = cuda_type(p.result);
  const bool in_double = p.operands == DType::f64;
  check(create_description_(&d.description, compute_type(p.operands, tf32_), in_double ? CUDA_R_64F : CUDA_R_32F),
        "matmul descriptor");
  const auto transpose = [&](cublasLtMatmulDescAttributes_t which, bool transposed) {
    const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(set_description_(d.description, which, &operation, sizeof operation), "matmul descriptor");
  };
  transpose(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b);
  transpose(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a);
  // `rows` and `cols` describe the row-major matrix in memory.
  const auto layout = [&](cublasLtMatrixLayout_t& made, cudaDataType_t type, Index rows, Index cols, Index stride,
                          Index step) {
    check(create_layout_(&made, type, static_cast<std::uint64_t>(cols), static_cast<std::uint64_t>(rows), stride),
          "matrix layout");
    const auto count = static_cast<std::int32_t>(p.count);
    check(set_layout_(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "matrix layout");
    check(set_layout_(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step), "matrix layout");
  };
  layout(d.first, operand, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.b.stride, p.b.step);
  layout(d.second, operand, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.a.stride, p.a.step);
  layout(d.result, result, p.m, p.n, p.c.stride, p.c.step);
}

cublasLtMatmulAlgo_t Products::algorithm(const Product& p, const Descriptors& d) {
  const std::uint32_t first = alignment_of(p.b.data);
  const std::uint32_t second = alignment_of(p.a.data);
  const std::uint32_t result = alignment_of(p.c.data);
  const Key key{static_cast<Index>(p.operands),
                static_cast<Index>(p.result),
                p.transpose_a ? 1 : 0,
                p.transpose_b ? 1 : 0,
                p.m,
                p.n,
                p.k,
                p.a.stride,
                p.a.step,
                p.b.stride,
                p.b.step,
                p.c.stride,
                p.c.step,
                p.count,
                p.beta == 0.0 ? 0 : 1,
                first,
                second,
                result};
  const auto known = algorithms_.find(key);
  if (known != algorithms_.end()) return known->second;
  cublasLtMatmulPreference_t preference = nullptr;
  check(create_preference_(&preference), "matmul algorithm selection");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
    check(set_preference_(preference, which, &value, sizeof value), "matmul algorithm selection");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, first);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, second);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result);
  // Partial sums of split-K products are reduced in the compute type and in a fixed order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  cublasLtMatmulHeuristicResult_t choice{};
  int found = 0;
  const cublasStatus_t status =
      heuristic_(handle_, d.description, d.first, d.second, d.result, d.result, preference, 1, &choice, &found);
  (void)destroy_preference_(preference);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
    fail("cuBLASLt found no algorithm for a product of [" + std::to_string(p.m) + ", " + std::to_string(p.k) +
         "] and [" + std::to_string(p.k) + ", " + std::to_string(p.n) + "] in " + std::string(name_of(p.operands)));
  }
  return algorithms_.emplace(key, choice.algo).first->second;
}

void Products::run(const Product& p) {
  const std::scoped_lock lock(mutex_);
  Descriptors d(*this);
  create_descriptors(p, d);
  const cublasLtMatmulAlgo_t chosen = algorithm(p, d);
  const float alpha_in_float = static_cast<float>(p.alpha);
  const float beta_in_float = static_cast<float>(p.beta);
  const bool in_double = p.operands == DType::f64;
  const void* alpha = in_double ? static_cast<const void*>(&p.alpha) : &alpha_in_float;
  const void* beta = in_double ? static_cast<const void*>(&p.beta) : &beta_in_float;
  check(multiply_(handle_, d.description, alpha, p.b.data, d.first, p.a.data, d.second, beta, p.c.data, d.result,
                  p.c.data, d.result, &chosen, workspace_, workspace_bytes, stream_),
        "matrix product");
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
