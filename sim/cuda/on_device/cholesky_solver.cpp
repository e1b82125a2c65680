#include "sim/cuda/on_device/cholesky_solver.h"

#include "sim/cuda/on_device/errors.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

void check_solver(cusolverStatus_t status, const char* what) {
  if (status != CUSOLVER_STATUS_SUCCESS) fail(std::string(what) + " failed: cuSOLVER status " + std::to_string(status));
}

}  // namespace

CholeskySolver::CholeskySolver(cudaStream_t stream) : library_("libcusolver.so." PERISCOPE_TEXT(CUSOLVER_VER_MAJOR)) {
  library_.find(create_, "cusolverDnCreate");
  library_.find(destroy_, "cusolverDnDestroy");
  library_.find(set_stream_, "cusolverDnSetStream");
  library_.find(factor_size_, "cusolverDnDpotrf_bufferSize");
  library_.find(factor_, "cusolverDnDpotrf");
  check_solver(create_(&handle_), "cuSOLVER initialization");
  check_solver(set_stream_(handle_, stream), "cuSOLVER initialization");
}

CholeskySolver::~CholeskySolver() { (void)destroy_(handle_); }

// cuSOLVER is column-major: the lower triangle of a row-major matrix is its upper triangle.
void CholeskySolver::cholesky(const Execution& execution, double* gram, Index n, int* info) {
  const std::scoped_lock lock(mutex_);
  const int rows = static_cast<int>(n);
  int size = 0;
  check_solver(factor_size_(handle_, CUBLAS_FILL_MODE_UPPER, rows, gram, rows, &size), "Cholesky workspace query");
  const std::shared_ptr<double> work = execution.take_array<double>(size);
  check_solver(factor_(handle_, CUBLAS_FILL_MODE_UPPER, rows, gram, rows, work.get(), size, info),
               "Cholesky factorisation");
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
