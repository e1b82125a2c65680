#include <algorithm>
#include <cstring>

#include "sim/cuda/columns.h"
#include "sim/cuda/elementwise.h"
#include "sim/cuda/gram_schmidt.h"
#include "sim/cuda/moments.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// Working memory and steps of row_basis: rows x [rows, n] in double, their squares, and the factor `lower`.
class RowBasisWork {
 public:
  RowBasisWork(const Execution& execution, Index rows, Index n)
      : execution_(execution),
        rows_(rows),
        n_(n),
        x_(execution.take_array<double>(rows * n)),
        lower_(execution.take_array<double>(rows * rows)),
        squares_(execution.take_array<double>(rows)) {}

  [[nodiscard]] double* x() const { return x_.get(); }
  [[nodiscard]] const double* lower() const { return lower_.get(); }

  /// Sets `lower` to the Cholesky factor of the Gram matrix. Returns false if the squared distance of a row from the
  /// span of earlier rows is at most `min_square` times its squared norm. Otherwise the rows of lower⁻¹ x are
  /// orthonormal up to about rows · 2⁻⁵³ / min_square.
  bool factorise_gram(double min_square) const {
    if (rows_ > n_) return false;
    measure_squares();
    product(rows_, rows_, n_, {x_.get(), n_}, {x_.get(), n_}, true, {lower_.get(), rows_}, 1.0, 0.0);
    const std::shared_ptr<int> info = execution_.take_array<int>(1);
    execution_.cholesky(lower_.get(), rows_, info.get());
    std::vector<double> shares(static_cast<std::size_t>(rows_));
    const std::shared_ptr<double> on_device = execution_.take_array<double>(rows_);
    for_each(execution_, rows_, RemainingShare{lower_.get(), squares_.get(), rows_, on_device.get()});
    const DevicePart parts[] = {{on_device.get(), shares.size() * sizeof(double)}, {info.get(), sizeof(int)}};
    const std::vector<std::byte> bytes = execution_.download(parts);
    std::memcpy(shares.data(), bytes.data(), parts[0].bytes);
    int failed = 0;
    std::memcpy(&failed, bytes.data() + parts[0].bytes, sizeof failed);
    return failed == 0 && std::ranges::all_of(shares, [=](double share) { return share > min_square; });
  }

  /// x = lower⁻¹ x.
  void solve() const { execution_.solve_lower(lower_.get(), rows_, x_.get(), n_); }

  /// Gram-Schmidt process with reorthogonalisation, row by row: makes x orthonormal and fills `lower`. Used for f64 and
  /// for nearly dependent rows.
  void orthonormalise(double tolerance) const {
    execution_.fill_zero(lower_.get(), static_cast<std::size_t>(rows_ * rows_) * sizeof(double));
    measure_squares();
    const std::shared_ptr<double> coefficients = execution_.take_array<double>(rows_);
    for (Index t = 0; t < rows_; ++t) {
      double* const row = x_.get() + t * n_;
      double* const lower = lower_.get() + t * rows_;
      for (int pass = 0; pass < 2 && t > 0; ++pass) {
        product(1, t, n_, {row, n_}, {x_.get(), n_}, true, {coefficients.get(), t}, 1.0, 0.0);
        product(1, n_, t, {coefficients.get(), t}, {x_.get(), n_}, false, {row, n_}, -1.0, 1.0);
        for_each(execution_, t, Binary<double, Add>{lower, coefficients.get(), lower, Add{}});
      }
      for_blocks(execution_, 1, FinishRow{row, n_, tolerance, squares_.get() + t, lower + t});
    }
  }

 private:
  void measure_squares() const {
    measure_rows(execution_, MeasureRows<double>{.x = x_.get(), .rows = rows_, .n = n_, .squares = squares_.get()});
  }
  void product(Index m, Index n, Index k, const MatrixAt<const void*>& a, const MatrixAt<const void*>& b,
               bool transpose_b, const MatrixAt<void*>& c, double alpha, double beta) const {
    execution_.product({DType::f64, DType::f64, false, transpose_b, m, n, k, a, b, c, 1, alpha, beta});
  }

  const Execution& execution_;
  Index rows_, n_;
  std::shared_ptr<double> x_, lower_, squares_;
};

}  // namespace

// Cholesky factorisation loses half of a double's digits. The other half suffices for all dtypes except f64 if the rows
// are far from linearly dependent. The host waits for the result of this check.
void CudaBackend::run(const op::RowBasis& o) const {
  const Index rows = o.x.rows();
  const double tolerance = dependence_tolerance(o.x.dtype());
  constexpr double far_from_dependent = 0x1p-20;
  const RowBasisWork work(execution_, rows, o.x.cols());
  const std::shared_ptr<int> exponents = execution_.take_array<int>(rows);
  with_type(o.x.dtype(), [&]<class T>(T) {
    for_blocks(execution_, rows, ScaleRow<T>{data<T>(o.x), o.x.cols(), work.x(), exponents.get()});
    if (o.x.dtype() != DType::f64 && work.factorise_gram(std::max(far_from_dependent, tolerance * tolerance))) {
      if (!o.b.basis.empty()) work.solve();
    } else {
      work.orthonormalise(tolerance);
    }
    for_each(execution_, rows * rows, WriteLower<T>{work.lower(), exponents.get(), data<T>(o.b.lower), rows});
    if (!o.b.basis.empty()) for_each(execution_, o.x.size(), Convert<double, T>{work.x(), data<T>(o.b.basis)});
  });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
