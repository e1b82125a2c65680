#include <Eigen/Cholesky>
#include <cmath>
#include <limits>
#include <optional>

#include "sim/cpu/gemm.h"
#include "sim/cpu/ops.h"

namespace periscope {
namespace cpu {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Piece of a long row that a thread works on: fits its cache beside as many rows as there are tokens.
constexpr Index piece = 512;

/// The rows of x in double, each times a power of two (`exponents`) that brings its largest magnitude to between 1 and
/// 2, so that no square leaves the range of double. Rows that are not finite become zero, with exponent `not_finite`.
constexpr int not_finite = std::numeric_limits<int>::max();
template <class T>
Matrix scaled_rows(const T* x, Index rows, Index n, std::vector<int>& exponents) {
  Matrix scaled(rows, n);
  exponents.assign(static_cast<std::size_t>(rows), 0);
#pragma omp parallel for schedule(static) if (rows * n > min_parallel_size)
  for (Index t = 0; t < rows; ++t) {
    const ConstRow<T> row(x + t * n, n);
    const double largest = static_cast<double>(row.abs().template maxCoeff<Eigen::PropagateNaN>());
    int& exponent = exponents[static_cast<std::size_t>(t)];
    if (!std::isfinite(largest)) {
      exponent = not_finite;
      scaled.row(t).setZero();
      continue;
    }
    if (largest > 0.0) exponent = std::ilogb(largest);
    scaled.row(t) = row.template cast<double>().matrix();
    // In two steps, since a power of two that lifts a subnormal number has no reciprocal.
    if (exponent != 0)
      scaled.row(t) = (scaled.row(t) * std::ldexp(1.0, -exponent / 2)) * std::ldexp(1.0, exponent / 2 - exponent);
  }
  return scaled;
}

/// lower(t, :) back to the length of row t.
template <class T>
void write_lower(const Matrix& lower, const std::vector<int>& exponents, T* out) {
  const Index rows = lower.rows();
  for (Index t = 0; t < rows; ++t) {
    const int exponent = exponents[static_cast<std::size_t>(t)];
    for (Index i = 0; i < rows; ++i) {
      const double v =
          exponent == not_finite ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(lower(t, i), exponent);
      out[t * rows + i] = static_cast<T>(i > t ? 0.0 : v);
    }
  }
}

/// Gram matrix x xᵀ, its lower half.
Matrix gram_of(const Matrix& x) {
  const Index rows = x.rows();
  const MatrixView<double> view{x.data(), x.cols()};
  Matrix gram(rows, rows);
  gemm<double>(rows, rows, x.cols(), view, view.transposed(), gram.data(), rows, Part::lower);
  return gram;
}

/// Cholesky's factor of the Gram matrix, if at least 2⁻²⁰ of every row's square is outside the span of the rows before
/// it; else nothing. The rows of factor⁻¹ x are orthonormal up to about rows · 2⁻⁵³ over that share, which is then less
/// than what rounding to f32 adds.
std::optional<Matrix> factor_of(const Matrix& x) {
  if (x.rows() > x.cols()) return std::nullopt;
  Matrix gram = gram_of(x);
  const Eigen::ArrayXd squares = gram.diagonal();
  Eigen::LLT<Eigen::Ref<Matrix>> llt(gram);
  if (llt.info() != Eigen::Success) return std::nullopt;
  const bool independent = (gram.diagonal().array().square() > 0x1p-20 * squares).all();
  if (!independent) return std::nullopt;
  return gram;
}

/// lower⁻¹ x, by pieces of its columns.
template <class T>
void solve(const Matrix& lower, const Matrix& x, T* basis) {
  const Index rows = x.rows();
  const Index n = x.cols();
  for_chunks(
      n,
      [&](Index first, Index count) {
        Matrix part = x.middleCols(first, count);
        lower.triangularView<Eigen::Lower>().solveInPlace(part);
        for (Index t = 0; t < rows; ++t) Row<T>(basis + t * n + first, count) = part.row(t).array().template cast<T>();
      },
      piece);
}

/// Gram and Schmidt's process on the rows of `basis`, which become orthonormal, or zero where they are dependent.
class GramSchmidt {
 public:
  GramSchmidt(Matrix& basis, double share)
      : basis_(basis), share_(share), lower_(Matrix::Zero(basis.rows(), basis.rows())) {}

  /// Panels of rows lose their part along all rows before them by a matrix product, then along each other row by row.
  Matrix run() {
    constexpr Index panel = 32;
    for (Index first = 0; first < basis_.rows(); first += panel) {
      const Index count = std::min(panel, basis_.rows() - first);
      const Eigen::VectorXd lengths = basis_.middleRows(first, count).rowwise().norm();
      for (int twice = 0; twice < 2; ++twice) take_out(first, count, 0, first);
      for (Index i = 0; i < count; ++i) finish(first, first + i, lengths(i));
    }
    return std::move(lower_);
  }

 private:
  /// Takes the part along rows begin … end − 1 from rows first … first + count − 1.
  void take_out(Index first, Index count, Index begin, Index end) {
    const Index before = end - begin;
    if (before == 0) return;
    auto rows = basis_.middleRows(first, count);
    Matrix along(count, before);
    constexpr Index few = 64;
    for_chunks(
        before,
        [&](Index i, Index some) {
          along.middleCols(i, some).noalias() = rows * basis_.middleRows(begin + i, some).transpose();
        },
        few);
    for_chunks(
        basis_.cols(),
        [&](Index j, Index some) {
          rows.middleCols(j, some).noalias() -= along * basis_.block(begin, j, before, some);
        },
        piece);
    lower_.block(first, begin, count, before) += along;
  }

  void finish(Index panel, Index t, double length) {
    const double entered = basis_.row(t).norm();
    for (int twice = 0; twice < 2; ++twice) take_out(t, 1, panel, t);
    // What rounding left along the rows before the panel was small beside the row as it entered. Where little of that
    // is left, it has to go once more.
    constexpr double little = 0.1;
    if (basis_.row(t).norm() < little * entered) {
      for (int twice = 0; twice < 2; ++twice) take_out(t, 1, 0, t);
    }
    const double left = basis_.row(t).norm();
    if (left > share_ * length) {
      lower_(t, t) = left;
      basis_.row(t) /= left;
    } else {
      basis_.row(t).setZero();
    }
  }

  Matrix& basis_;
  double share_;
  Matrix lower_;
};

/// Gram and Schmidt's process takes several times as long as Cholesky's factor, which loses half of the digits.
template <class T>
void row_basis(const T* x, Index rows, Index n, double share, T* lower, T* basis) {
  std::vector<int> exponents;
  Matrix scaled = scaled_rows(x, rows, n, exponents);
  if (dtype_of<T> == DType::f32) {
    if (const std::optional<Matrix> factor = factor_of(scaled)) {
      write_lower(*factor, exponents, lower);
      if (basis != nullptr) solve(*factor, scaled, basis);
      return;
    }
  }
  write_lower(GramSchmidt(scaled, share).run(), exponents, lower);
  if (basis != nullptr)
    Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(basis, rows, n) = scaled.cast<T>();
}

}  // namespace
}  // namespace cpu

void CpuBackend::run(const op::RowBasis& o) const {
  cpu::with_type_of(o.x, [&]<class T>(T) {
    cpu::row_basis(elements<T>(o.x), o.x.rows(), o.x.cols(), dependence_tolerance(o.x.dtype()), elements<T>(o.b.lower),
                   o.b.basis.empty() ? nullptr : elements<T>(o.b.basis));
  });
}

}  // namespace periscope
