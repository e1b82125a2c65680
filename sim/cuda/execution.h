#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sim/cuda/element.h"
#include "sim/cuda/options.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// A row-major matrix in device memory. Rows are `stride` elements apart; batched matrices are `step` elements apart.
template <class Pointer>
struct MatrixAt {
  Pointer data;
  Index stride;
  Index step = 0;
};

/// A batch of `count` products c = alpha·op(a)·op(b) + beta·c; op(a) [m, k], op(b) [k, n]. Transposed operands are
/// stored as [k, m] and [n, k]. Sums are in compute_dtype(operands); `result` is either of these dtypes.
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
  double beta = 0.0;  ///< multiplies the previous c: 0 (c is not read) or 1
};

/// A range of device memory to read.
struct DevicePart {
  const void* data;
  std::size_t bytes;
};

/// Executes kernels (launch.h), transfers and matrix products in the order of the calls; only `download` waits.
/// Implemented in on_device/ with CUDA and in on_host/ without. Thread-safe. CUDA failures throw Error with a remedy.
class Execution {
 public:
  explicit Execution(const Options& options);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  ~Execution();

  [[nodiscard]] Device device() const;
  [[nodiscard]] const Options& options() const { return options_; }
  /// Allocates at least `bytes` uninitialised bytes. Later calls reuse the memory once its last owner has released it.
  [[nodiscard]] std::shared_ptr<void> take(std::size_t bytes) const;
  template <class T>
  [[nodiscard]] std::shared_ptr<T> take_array(Index count) const {
    return std::static_pointer_cast<T>(take(static_cast<std::size_t>(count) * sizeof(T)));
  }
  /// Copies from host memory, which may be modified once this returns.
  void upload(const void* from, void* to, std::size_t bytes) const;
  template <class T>
  [[nodiscard]] std::shared_ptr<T> uploaded(std::span<const T> values) const {
    std::shared_ptr<T> copy = take_array<T>(static_cast<Index>(values.size()));
    upload(values.data(), copy.get(), values.size_bytes());
    return copy;
  }
  /// Copies the concatenated parts to host memory and waits for completion.
  [[nodiscard]] std::vector<std::byte> download(std::span<const DevicePart> parts) const;
  void fill_zero(void* to, std::size_t bytes) const;
  void product(const Product& p) const;
  /// Replaces the lower triangle of the symmetric `gram` [n, n] by its Cholesky factor; the rest becomes undefined.
  /// Sets `info` to 0 on success, else to a positive number.
  void cholesky(double* gram, Index n, int* info) const;
  /// Replaces x [n, cols] by lower⁻¹ x; the upper triangle of `lower` [n, n] is not read.
  void solve_lower(const double* lower, Index n, double* x, Index cols) const;
  /// Returns the CUDA stream; null on the host.
  [[nodiscard]] void* stream() const;

 private:
  struct State;
  Options options_;
  std::unique_ptr<State> state_;
  friend class Launch;
};

/// Counts a launch, copy or product in Options::profile, if there is one. On a GPU, CUDA events recorded by constructor
/// and destructor time it. Launches must not overlap.
class Launch {
 public:
  Launch(const Execution& execution, const char* kernel);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch();  // NOLINT(performance-trivially-destructible): not trivial on a GPU
  void count(Index read, Index written, Index most_accesses) const {
    if (use == nullptr) return;
    use->read += read;
    use->written += written;
    use->most_accesses = std::max(use->most_accesses, most_accesses);
  }

  KernelUse* const use;  ///< null without a profile

 private:
  static KernelUse* use_of(Profile* profile, const char* kernel) {
    if (profile == nullptr) return nullptr;
    KernelUse* const use = &profile->kernels[{std::string(profile->op), kernel}];
    ++use->launches;
    return use;
  }
  const Execution& execution_;
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
