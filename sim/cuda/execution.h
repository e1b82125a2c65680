#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sim/cuda/element.h"
#include "sim/cuda/options.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// A row-major matrix in device memory with rows `stride` elements apart; in a batch the next is `step` elements later.
template <class Pointer>
struct MatrixAt {
  Pointer data;
  Index stride;
  Index step = 0;
};

/// c = alpha·op(a)·op(b) + beta·c, `count` times; op(a) [m, k], op(b) [k, n]; transposed operands are stored as [k, m]
/// and [n, k]. a and b have the dtype `operands`, c that dtype or the type in which it computes, which is the type of
/// sums.
struct Product {
  DType operands;
  DType result;
  bool transpose_a;
  bool transpose_b;
  Index m, n, k;
  MatrixAt<const void*> a;
  MatrixAt<const void*> b;
  MatrixAt<void*> c;
  Index count = 1;
  double alpha = 1.0;
  double beta = 0.0;  ///< 0: c is not read; or 1
};

/// A part of device memory to be read.
struct DevicePart {
  const void* data;
  std::size_t bytes;
};

/// Runs kernels (launch.h), transfers and matrix products, in the order of the calls; only `download` waits.
/// Implemented by on_device/ with CUDA and on_host/ without. Safe for threads. Failures of CUDA are std::runtime_error
/// with a remedy.
class Execution {
 public:
  explicit Execution(const Options& options);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  ~Execution();

  [[nodiscard]] Device device() const;
  [[nodiscard]] const Options& options() const { return options_; }
  /// At least `bytes` bytes, contents undefined, which later calls may reuse once the last owner drops them.
  [[nodiscard]] std::shared_ptr<void> take(std::size_t bytes) const;
  template <class T>
  [[nodiscard]] std::shared_ptr<T> take_array(Index count) const {
    return std::static_pointer_cast<T>(take(static_cast<std::size_t>(count) * sizeof(T)));
  }
  /// Copies from host memory, which may change as soon as this returns.
  void upload(const void* from, void* to, std::size_t bytes) const;
  template <class T>
  [[nodiscard]] std::shared_ptr<T> uploaded(std::span<const T> values) const {
    std::shared_ptr<T> there = take_array<T>(static_cast<Index>(values.size()));
    upload(values.data(), there.get(), values.size_bytes());
    return there;
  }
  /// Copies the parts to host memory, one after the other, and waits until they are there.
  [[nodiscard]] std::vector<std::byte> download(std::span<const DevicePart> parts) const;
  void fill_zero(void* to, std::size_t bytes) const;
  void product(const Product& p) const;
  /// Replaces the lower half of the symmetric `gram` [n, n] by its Cholesky factor; the upper half becomes undefined.
  /// `info` is 0, or the row from 1 at which the matrix is not positive.
  void cholesky(double* gram, Index n, int* info) const;
  /// x [n, cols] becomes lower⁻¹ x; the upper half of `lower` [n, n] is not read.
  void solve_lower(const double* lower, Index n, double* x, Index cols) const;
  /// CUDA's stream; null on the host.
  [[nodiscard]] void* stream() const;

 private:
  struct State;
  Options options_;
  std::unique_ptr<State> state_;
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
