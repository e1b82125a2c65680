#include <algorithm>
#include <cstring>

#include "sim/cuda/elementwise.h"
#include "sim/cuda/gram_schmidt.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// Rows in double [rows, n] in device memory, and what is known of them.
class Rows {
 public:
  Rows(const Execution& execution, Index rows, Index n)
      : execution_(execution),
        rows_(rows),
        n_(n),
        x_(execution.take_array<double>(rows * n)),
        lower_(execution.take_array<double>(rows * rows)),
        lengths_(execution.take_array<double>(rows)) {}

  [[nodiscard]] double* x() const { return x_.get(); }
  [[nodiscard]] const double* lower() const { return lower_.get(); }

  /// lower = Cholesky's factor of the Gram matrix, if it will do. The rows of lower⁻¹ x are orthonormal up to about
  /// rows · 2⁻⁵³ over the share of a row's square that is outside the span of the rows before it.
  bool factorise_gram(double least_square) const {
    if (rows_ > n_) return false;
    for_blocks(execution_, rows_, RowLength{x_.get(), n_, lengths_.get()});
    product(rows_, rows_, n_, {x_.get(), n_}, {x_.get(), n_}, true, {lower_.get(), rows_}, 1.0, 0.0);
    const std::shared_ptr<int> verdict = execution_.take_array<int>(2);
    execution_.cholesky(lower_.get(), rows_, verdict.get() + 1);
    for_blocks(execution_, 1,
               CheckFactor{lower_.get(), lengths_.get(), verdict.get() + 1, least_square, rows_, verdict.get()});
    const DevicePart part{verdict.get(), sizeof(int)};
    int good = 0;
    std::memcpy(&good, execution_.download({&part, 1}).data(), sizeof good);
    return good == 1;
  }

  /// x = lower⁻¹ x.
  void solve() const { execution_.solve_lower(lower_.get(), rows_, x_.get(), n_); }

  /// Gram and Schmidt's process: x becomes orthonormal, lower its coefficients. Panels of rows lose their part along
  /// all rows before them by matrix products, then their part along each other row by row.
  void orthonormalise(double share) const {
    constexpr Index panel = FinishPanel::rows_at_once;
    execution_.fill_zero(lower_.get(), static_cast<std::size_t>(rows_ * rows_) * sizeof(double));
    for_blocks(execution_, rows_, RowLength{x_.get(), n_, lengths_.get()});
    const std::shared_ptr<double> along = execution_.take_array<double>(panel * rows_);
    for (Index first = 0; first < rows_; first += panel) {
      const Index count = std::min(panel, rows_ - first);
      double* const rows = x_.get() + first * n_;
      for (int twice = 0; twice < 2 && first > 0; ++twice) {
        product(count, first, n_, {rows, n_}, {x_.get(), n_}, true, {along.get(), first}, 1.0, 0.0);
        product(count, n_, first, {along.get(), first}, {x_.get(), n_}, false, {rows, n_}, -1.0, 1.0);
        for_each(execution_, count * first, AddCoefficients{along.get(), lower_.get(), rows_, first});
      }
      for_blocks(execution_, 1, FinishPanel{x_.get(), lower_.get(), lengths_.get(), share, rows_, n_, first, count});
    }
  }

 private:
  void product(Index m, Index n, Index k, const MatrixAt<const void*>& a, const MatrixAt<const void*>& b,
               bool transpose_b, const MatrixAt<void*>& c, double alpha, double beta) const {
    execution_.product({.operands = DType::f64,
                        .result = DType::f64,
                        .transpose_a = false,
                        .transpose_b = transpose_b,
                        .m = m,
                        .n = n,
                        .k = k,
                        .a = a,
                        .b = b,
                        .c = c,
                        .alpha = alpha,
                        .beta = beta});
  }

  const Execution& execution_;
  Index rows_, n_;
  std::shared_ptr<double> x_, lower_, lengths_;
};

}  // namespace

// Cholesky's factor loses half of the digits of double: enough for everything but f64, if the rows are far from
// dependent. Whether they are has to be known on the host, which waits for it.
void CudaBackend::run(const op::RowBasis& o) const {
  const Index rows = o.x.rows();
  const double share = dependence_tolerance(o.x.dtype());
  constexpr double far_from_dependent = 0x1p-20;
  const Rows work(execution_, rows, o.x.cols());
  const std::shared_ptr<int> exponents = execution_.take_array<int>(rows);
  with_type(o.x.dtype(), [&]<class T>(T) {
    for_blocks(execution_, rows, ScaleRow<T>{data<T>(o.x), o.x.cols(), work.x(), exponents.get()});
    if (o.x.dtype() != DType::f64 && work.factorise_gram(std::max(far_from_dependent, share * share))) {
      if (!o.b.basis.empty()) work.solve();
    } else {
      work.orthonormalise(share);
    }
    for_each(execution_, rows * rows, WriteLower<T>{work.lower(), exponents.get(), data<T>(o.b.lower), rows});
    if (!o.b.basis.empty()) for_each(execution_, o.x.size(), Convert<double, T>{work.x(), data<T>(o.b.basis)});
  });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
