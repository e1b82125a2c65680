#include "sim/cuda/execution.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cstring>
#include <vector>

#include "sim/base/first_exception.h"
#include "sim/core/storage.h"
#include "sim/cuda/on_host/backend.h"
#include "sim/cuda/ops.h"
#include "sim/numerics/rounding.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

template <class C>
using Matrix = Eigen::Matrix<C, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The operand format of TF32 products.
constexpr NumberFormat tf32{"tf32", 0x1.ffcp127, 11, -126};

/// Reads a matrix [rows, cols] of the batch, widened to Computed<T> and rounded to TF32 if `in_tf32`.
template <class T>
Matrix<Computed<T>> read(const MatrixAt<const void*>& x, Index index, Index rows, Index cols, bool in_tf32) {
  const Rounding round(tf32);
  const T* first = static_cast<const T*>(x.data) + index * x.step;
  Matrix<Computed<T>> out(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) {
      const Computed<T> value = widen(first[i * x.stride + j]);
      out(i, j) = in_tf32 ? static_cast<Computed<T>>(round(static_cast<double>(value))) : value;
    }
  }
  return out;
}

/// Writes `product` to a matrix of the batch, starting at `row`.
template <class T>
void write(const Matrix<Computed<T>>& product, double beta, const MatrixAt<void*>& c, Index index, Index row) {
  T* first = static_cast<T*>(c.data) + index * c.step + row * c.stride;
  for (Index i = 0; i < product.rows(); ++i) {
    for (Index j = 0; j < product.cols(); ++j) {
      T& out = first[i * c.stride + j];
      out = narrow<T>(beta == 0.0 ? product(i, j) : product(i, j) + static_cast<Computed<T>>(beta) * widen(out));
    }
  }
}

}  // namespace

struct Execution::State {};

Execution::Execution(const Options& options) : options_(options) {}
Execution::~Execution() = default;

Device Execution::device() const { return Device::host; }
void* Execution::stream() const { return nullptr; }
std::shared_ptr<void> Execution::take(std::size_t bytes) const { return host_pool().take(bytes); }
void Execution::upload(const void* from, void* to, std::size_t bytes) const {
  Launch(*this, "upload").count(0, static_cast<Index>(bytes), 0);
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void Execution::fill_zero(void* to, std::size_t bytes) const {
  Launch(*this, "fill with zeros").count(0, static_cast<Index>(bytes), 0);
  std::memset(to, 0, bytes);
}

Launch::Launch(const Execution& execution, const char* kernel)
    : use(use_of(execution.options_.profile, kernel)), execution_(execution) {}
Launch::~Launch() = default;

std::vector<std::byte> Execution::download(std::span<const DevicePart> parts) const {
  std::vector<std::byte> bytes;
  for (const DevicePart& part : parts) {
    const auto* from = static_cast<const std::byte*>(part.data);
    bytes.insert(bytes.end(), from, from + part.bytes);
  }
  Launch(*this, "download").count(static_cast<Index>(bytes.size()), 0, 0);
  return bytes;
}

// Each block of rows is computed on one thread with single-threaded Eigen, so summation orders depend only on the
// shapes.
void Execution::product(const Product& p) const {
  const Index of_operands = p.count * (p.m + p.n) * p.k * static_cast<Index>(size_of(p.operands));
  const Index of_result = p.count * p.m * p.n * static_cast<Index>(size_of(p.result));
  Launch(*this, "product").count(of_operands + (p.beta == 0.0 ? 0 : of_result), of_result, 0);
  with_type(p.operands, [&]<class T>(T) {
    using C = Computed<T>;
    constexpr Index min_parallel_size = 100000, block = 256;
    const bool in_tf32 = options_.tf32 && p.operands == DType::f32;
    const Index blocks = ceil_div(p.m, block);
    FirstException failure;
#pragma omp parallel for schedule(static) if (p.count * p.m * p.n * p.k > min_parallel_size)
    for (Index task = 0; task < p.count * blocks; ++task) {
      failure.run([&] {
        const Index index = task / blocks;
        const Index first = task % blocks * block;
        const Index rows = std::min(block, p.m - first);
        const MatrixAt<const void*> part{static_cast<const T*>(p.a.data) + first * (p.transpose_a ? 1 : p.a.stride),
                                         p.a.stride, p.a.step};
        const Matrix<C> a = p.transpose_a ? Matrix<C>(read<T>(part, index, p.k, rows, in_tf32).transpose())
                                          : read<T>(part, index, rows, p.k, in_tf32);
        const Matrix<C> b = p.transpose_b ? Matrix<C>(read<T>(p.b, index, p.n, p.k, in_tf32).transpose())
                                          : read<T>(p.b, index, p.k, p.n, in_tf32);
        Matrix<C> sums(rows, p.n);
        sums.noalias() = static_cast<C>(p.alpha) * a * b;
        if (p.result == p.operands) {
          write<T>(sums, p.beta, p.c, index, first);
        } else {
          write<C>(sums, p.beta, p.c, index, first);
        }
      });
    }
    failure.rethrow();
  });
}

void Execution::cholesky(double* gram, Index n, int* info) const {
  const Launch launch(*this, "cholesky");
  Eigen::Map<Matrix<double>> matrix(gram, n, n);
  Eigen::LLT<Eigen::Ref<Matrix<double>>> in_place(matrix);
  *info = in_place.info() == Eigen::Success ? 0 : 1;
}

void Execution::solve_lower(const double* lower, Index n, double* x, Index cols) const {
  const Launch launch(*this, "solve");
  const Eigen::Map<const Matrix<double>> factor(lower, n, n);
  factor.triangularView<Eigen::Lower>().solveInPlace(Eigen::Map<Matrix<double>>(x, n, cols));
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda

namespace periscope {

std::unique_ptr<Backend> make_cuda_backend_on_host(const cuda::Options& options) {
  return std::make_unique<cuda::CudaBackend>(options);
}

}  // namespace periscope
