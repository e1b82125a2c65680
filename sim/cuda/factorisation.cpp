#include <algorithm>
#include <cstring>

#include "sim/cuda/elementwise.h"
#include "sim/cuda/gram_schmidt.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// Working memory and steps of row_basis: rows x [rows, n] in double, their lengths, and the factor `lower`.
class RowBasisWork {
 public:
  RowBasisWork(const Execution& execution, Index rows, Index n)
      : execution_(execution),
        rows_(rows),
        n_(n),
        x_(execution.take_array<double>(rows * n)),
        lower_(execution.take_array<double>(rows * rows)),
        lengths_(execution.take_array<double>(rows)) {}

  [[nodiscard]] double* x() const { return x_.get(); }
  [[nodiscard]] const double* lower() const { return lower_.get(); }

  /// Sets `lower` to the Cholesky factor of the Gram matrix. Returns false if the squared distance of a row from the
  /// span of earlier rows is at most `min_square` times its squared norm. Otherwise the rows of lower⁻¹ x are
  /// orthonormal up to about rows · 2⁻⁵³ / min_square.
  bool factorise_gram(double min_square) const {
    if (rows_ > n_) return false;
    for_blocks(execution_, rows_, RowLength{x_.get(), n_, lengths_.get()});
    product(rows_, rows_, n_, {x_.get(), n_}, {x_.get(), n_}, true, {lower_.get(), rows_}, 1.0, 0.0);
    const std::shared_ptr<int> usable = execution_.take_array<int>(2);
    execution_.cholesky(lower_.get(), rows_, usable.get() + 1);
    for_blocks(execution_, 1,
               CheckFactor{lower_.get(), lengths_.get(), usable.get() + 1, min_square, rows_, usable.get()});
    const DevicePart part{usable.get(), sizeof(int)};
    int result = 0;
    std::memcpy(&result, execution_.download({&part, 1}).data(), sizeof result);
    return result == 1;
  }

  /// x = lower⁻¹ x.
  void solve() const { execution_.solve_lower(lower_.get(), rows_, x_.get(), n_); }

  /// Gram-Schmidt process: makes x orthonormal and fills `lower`. Each panel of rows is orthogonalised against
  /// all earlier rows by matrix products, then row by row within the panel.
  void orthonormalise(double tolerance) const {
    constexpr Index panel = FinishPanel::rows_at_once;
    execution_.fill_zero(lower_.get(), static_cast<std::size_t>(rows_ * rows_) * sizeof(double));
    for_blocks(execution_, rows_, RowLength{x_.get(), n_, lengths_.get()});
    const std::shared_ptr<double> coefficients = execution_.take_array<double>(panel * rows_);
    for (Index first = 0; first < rows_; first += panel) {
      const Index count = std::min(panel, rows_ - first);
      double* const rows = x_.get() + first * n_;
      for (int twice = 0; twice < 2 && first > 0; ++twice) {
        product(count, first, n_, {rows, n_}, {x_.get(), n_}, true, {coefficients.get(), first}, 1.0, 0.0);
        product(count, n_, first, {coefficients.get(), first}, {x_.get(), n_}, false, {rows, n_}, -1.0, 1.0);
        for_each(execution_, count * first, AddCoefficients{coefficients.get(), lower_.get(), rows_, first});
      }
      for_blocks(execution_, 1,
                 FinishPanel{x_.get(), lower_.get(), lengths_.get(), tolerance, rows_, n_, first, count});
    }
  }

 private:
  void product(Index m, Index n, Index k, const MatrixAt<const void*>& a, const MatrixAt<const void*>& b,
               bool transpose_b, const MatrixAt<void*>& c, double alpha, double beta) const {
    execution_.product({DType::f64, DType::f64, false, transpose_b, m, n, k, a, b, c, 1, alpha, beta});
  }

  const Execution& execution_;
  Index rows_, n_;
  std::shared_ptr<double> x_, lower_, lengths_;
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
