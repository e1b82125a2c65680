#include "sim/cuda/on_device/blas.h"

#include "sim/cuda/on_device/errors.h"

#define PERISCOPE_TEXT_OF(x) #x
#define PERISCOPE_TEXT(x) PERISCOPE_TEXT_OF(x)

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDA_R_64F;
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
  }
  return CUDA_R_64F;
}

void check_solver(cusolverStatus_t status, const char* what) {
  if (status != CUSOLVER_STATUS_SUCCESS) fail(std::string(what) + " failed: cuSOLVER status " + std::to_string(status));
}

cublasOperation_t operation(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }

}  // namespace

Blas::Blas(cudaStream_t stream, bool tf32)
    : library_("libcublas.so." PERISCOPE_TEXT(CUBLAS_VER_MAJOR)), stream_(stream), tf32_(tf32) {
  library_.find(create_, "cublasCreate_v2");
  library_.find(destroy_, "cublasDestroy_v2");
  library_.find(set_stream_, "cublasSetStream_v2");
  library_.find(set_math_mode_, "cublasSetMathMode");
  library_.find(multiply_, "cublasGemmStridedBatchedEx_64");
  library_.find(solve_, "cublasDtrsm_v2_64");
  check(create_(&handle_), "cuBLAS initialization");
  check(set_stream_(handle_, stream), "cuBLAS initialization");
  // Partial sums of a product that is split along k are added in the compute type.
  constexpr auto mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  check(set_math_mode_(handle_, static_cast<cublasMath_t>(mode)), "cuBLAS initialization");
}

Blas::~Blas() {
  (void)destroy_(handle_);
  if (solver_ != nullptr) (void)destroy_solver_(solver_);
}

void Blas::load_solver() {
  const Library library("libcusolver.so." PERISCOPE_TEXT(CUSOLVER_VER_MAJOR));
  decltype(&cusolverDnCreate) create = nullptr;
  decltype(&cusolverDnSetStream) set_stream = nullptr;
  library.find(create, "cusolverDnCreate");
  library.find(set_stream, "cusolverDnSetStream");
  library.find(destroy_solver_, "cusolverDnDestroy");
  library.find(factor_size_, "cusolverDnDpotrf_bufferSize");
  library.find(factor_, "cusolverDnDpotrf");
  check_solver(create(&solver_), "cuSOLVER initialization");
  check_solver(set_stream(solver_, stream_), "cuSOLVER initialization");
}

// Both libraries are column-major: the lower triangle of a row-major matrix is their upper triangle.
void Blas::cholesky(const Execution& execution, double* gram, Index n, int* info) {
  const std::scoped_lock lock(mutex_);
  if (solver_ == nullptr) load_solver();
  const int rows = static_cast<int>(n);
  int size = 0;
  check_solver(factor_size_(solver_, CUBLAS_FILL_MODE_UPPER, rows, gram, rows, &size), "Cholesky workspace query");
  const std::shared_ptr<double> work = execution.take_array<double>(size);
  check_solver(factor_(solver_, CUBLAS_FILL_MODE_UPPER, rows, gram, rows, work.get(), size, info),
               "Cholesky factorisation");
}

// cuBLAS is column-major, so it sees row-major matrices as their transposes. It therefore computes
// cᵀ = op(b)ᵀ op(a)ᵀ: the first factor is b, and the transposition flags are unchanged.
void Blas::product(const Product& p) {
  const std::scoped_lock lock(mutex_);
  const float alpha_in_float = static_cast<float>(p.alpha);
  const float beta_in_float = static_cast<float>(p.beta);
  const bool in_double = p.operands == DType::f64;
  const auto scalar = [&](const double& wide, const float& narrow) {
    return in_double ? static_cast<const void*>(&wide) : &narrow;
  };
  const cublasComputeType_t in_float =
      tf32_ && p.operands == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const cudaDataType_t operand = cuda_type(p.operands);
  check(multiply_(handle_, operation(p.transpose_b), operation(p.transpose_a), p.n, p.m, p.k,
                  scalar(p.alpha, alpha_in_float), p.b.data, operand, p.b.stride, p.b.step, p.a.data, operand,
                  p.a.stride, p.a.step, scalar(p.beta, beta_in_float), p.c.data, cuda_type(p.result), p.c.stride,
                  p.c.step, p.count, in_double ? CUBLAS_COMPUTE_64F : in_float, CUBLAS_GEMM_DEFAULT),
        "matrix product");
}

// Row-major lower·y = x is column-major yᵀ·lowerᵀ = xᵀ: xᵀ [cols, n] is solved with the upper triangle on the right.
void Blas::solve_lower(const double* lower, Index n, double* x, Index cols) {
  const std::scoped_lock lock(mutex_);
  const double one = 1.0;
  check(solve_(handle_, CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, cols, n, &one,
               lower, n, x, cols),
        "triangular solve");
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
