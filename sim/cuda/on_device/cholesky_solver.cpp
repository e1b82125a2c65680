#include "sim/cuda/on_device/cholesky_solver.h"

#include "sim/cuda/on_device/errors.h"

#define PERISCOPE_TEXT_OF(x) #x
#define PERISCOPE_TEXT(x) PERISCOPE_TEXT_OF(x)

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

void check_solver(cusolverStatus_t status, const char* what) {
  if (status != CUSOLVER_STATUS_SUCCESS) fail(std::string(what) + " failed: cuSOLVER status " + std::to_string(status));
}

}  // namespace

CholeskySolver::CholeskySolver(cudaStream_t stream)
    : blas_("libcublas.so." PERISCOPE_TEXT(CUBLAS_VER_MAJOR)),
      solver_("libcusolver.so." PERISCOPE_TEXT(CUSOLVER_VER_MAJOR)) {
  blas_.find(create_blas_, "cublasCreate_v2");
  blas_.find(destroy_blas_, "cublasDestroy_v2");
  blas_.find(set_blas_stream_, "cublasSetStream_v2");
  blas_.find(solve_, "cublasDtrsm_v2");
  solver_.find(create_solver_, "cusolverDnCreate");
  solver_.find(destroy_solver_, "cusolverDnDestroy");
  solver_.find(set_solver_stream_, "cusolverDnSetStream");
  solver_.find(factor_size_, "cusolverDnDpotrf_bufferSize");
  solver_.find(factor_, "cusolverDnDpotrf");
  check(create_blas_(&blas_handle_), "cuBLAS initialization");
  check(set_blas_stream_(blas_handle_, stream), "cuBLAS initialization");
  check_solver(create_solver_(&solver_handle_), "cuSOLVER initialization");
  check_solver(set_solver_stream_(solver_handle_, stream), "cuSOLVER initialization");
}

CholeskySolver::~CholeskySolver() {
  (void)destroy_solver_(solver_handle_);
  (void)destroy_blas_(blas_handle_);
}

// Both libraries are column-major: the lower triangle of a row-major matrix is their upper triangle.
int CholeskySolver::work_size(double* gram, Index n) {
  const std::scoped_lock lock(mutex_);
  int size = 0;
  check_solver(
      factor_size_(solver_handle_, CUBLAS_FILL_MODE_UPPER, static_cast<int>(n), gram, static_cast<int>(n), &size),
      "Cholesky workspace query");
  return size;
}

void CholeskySolver::cholesky(double* gram, Index n, double* work, int size, int* info) {
  const std::scoped_lock lock(mutex_);
  check_solver(
      factor_(solver_handle_, CUBLAS_FILL_MODE_UPPER, static_cast<int>(n), gram, static_cast<int>(n), work, size, info),
      "Cholesky factorisation");
}

// Row-major lower·y = x is column-major yᵀ·lowerᵀ = xᵀ: xᵀ [cols, n] is solved with the upper triangle on the right.
void CholeskySolver::solve_lower(const double* lower, Index n, double* x, Index cols) {
  const std::scoped_lock lock(mutex_);
  const double one = 1.0;
  check(
      solve_(blas_handle_, CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT,
             static_cast<int>(cols), static_cast<int>(n), &one, lower, static_cast<int>(n), x, static_cast<int>(cols)),
      "triangular solve");
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
