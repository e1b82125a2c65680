#include <omp.h>

#include <Eigen/Cholesky>
#include <cmath>
#include <limits>
#include <optional>

#include "sim/cpu/gemm.h"
#include "sim/cpu/gemm_kernel.h"
#include "sim/cpu/ops.h"

namespace periscope {
namespace cpu {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Number of columns that a thread processes at a time, chosen so that this part of all rows fits its cache.
constexpr Index columns_per_task = 512;
constexpr int not_finite = std::numeric_limits<int>::max();

/// The rows of x in double, row t divided by 2^exponents()[t], so that its largest magnitude is in [1, 2) and no square
/// overflows or underflows. Rows with a NaN or inf become zero, with the exponent `not_finite`.
template <class T>
class ScaledRows {
 public:
  ScaledRows(const T* x, Index rows, Index n) : x_(x), n_(n), exponents_(static_cast<std::size_t>(rows), 0) {
#pragma omp parallel for schedule(static) if (rows * n > min_parallel_size)
    for (Index t = 0; t < rows; ++t) {
      const auto largest = static_cast<double>(part(t, 0, n).abs().template maxCoeff<Eigen::PropagateNaN>());
      const int exponent = !std::isfinite(largest) ? not_finite : largest > 0.0 ? std::ilogb(largest) : 0;
      exponents_[static_cast<std::size_t>(t)] = exponent;
    }
  }

  [[nodiscard]] Index rows() const { return static_cast<Index>(exponents_.size()); }
  [[nodiscard]] Index cols() const { return n_; }
  [[nodiscard]] const std::vector<int>& exponents() const { return exponents_; }

  [[nodiscard]] Matrix columns(Index first, Index count) const {
    Matrix scaled(rows(), count);
#pragma omp parallel for schedule(static) if (omp_get_level() == 0 && rows() * count > min_parallel_size)
    for (Index t = 0; t < rows(); ++t) {
      const int exponent = exponents_[static_cast<std::size_t>(t)];
      scaled.row(t).setZero();
      if (exponent == not_finite) continue;
      // Scales in two steps, since a single power of two could overflow for subnormal rows.
      scaled.row(t) = (part(t, first, count).template cast<double>() * std::ldexp(1.0, -exponent / 2)) *
                      std::ldexp(1.0, exponent / 2 - exponent);
    }
    return scaled;
  }

 private:
  [[nodiscard]] ConstRow<T> part(Index t, Index first, Index count) const { return {x_ + t * n_ + first, count}; }

  const T* x_;
  Index n_;
  std::vector<int> exponents_;
};

/// Writes the lower triangle with the scaling undone: row t times 2^exponents[t], or NaN if the row was not finite.
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

/// Returns the lower triangle of the Gram matrix x xᵀ. One thread sums over blocks of columns that fit its cache;
/// several threads share a product of all columns. gemm adds blocks of the same size, so the bits are the same.
template <class T>
Matrix gram_of(const ScaledRows<T>& x) {
  const bool team = omp_in_parallel() == 0 && omp_get_max_threads() > 1;
  const Index block = team ? x.cols() : kernel::depth;
  Matrix gram(x.rows(), x.rows());
  for (Index first = 0; first < x.cols(); first += block) {
    const Matrix part = x.columns(first, std::min(block, x.cols() - first));
    const MatrixView<double> view{part.data(), part.cols()};
    gemm<double>(x.rows(), x.rows(), part.cols(), view, view.transposed(), gram.data(), x.rows(), Part::lower,
                 first == 0 ? Output::overwrite : Output::accumulate);
  }
  return gram;
}

/// Returns the Cholesky factor of the Gram matrix, or nullopt if the squared distance of a row from the span of earlier
/// rows is at most 2⁻²⁰ of its squared norm. The rows of factor⁻¹ x are orthonormal up to about rows · 2⁻⁵³ / 2⁻²⁰,
/// which is below the error of rounding to f32.
template <class T>
std::optional<Matrix> factor_of(const ScaledRows<T>& x) {
  if (x.rows() > x.cols()) return std::nullopt;
  Matrix gram = gram_of(x);
  const Eigen::ArrayXd squares = gram.diagonal();
  Eigen::LLT<Eigen::Ref<Matrix>> llt(gram);
  if (llt.info() != Eigen::Success) return std::nullopt;
  if (!(gram.diagonal().array().square() > 0x1p-20 * squares).all()) return std::nullopt;
  return gram;
}

/// basis = lower⁻¹ x, in blocks of columns.
template <class T>
void solve(const Matrix& lower, const ScaledRows<T>& x, T* basis) {
  const Index rows = x.rows();
  const Index n = x.cols();
  for_chunks(
      n,
      [&](Index first, Index count) {
        Matrix part = x.columns(first, count);
        lower.triangularView<Eigen::Lower>().solveInPlace(part);
        for (Index t = 0; t < rows; ++t) Row<T>(basis + t * n + first, count) = part.row(t).array().template cast<T>();
      },
      columns_per_task);
}

/// Gram-Schmidt process on the rows of `basis`, which become orthonormal, or zero where linearly dependent.
class GramSchmidt {
 public:
  GramSchmidt(Matrix& basis, double tolerance)
      : basis_(basis), tolerance_(tolerance), lower_(Matrix::Zero(basis.rows(), basis.rows())) {}

  /// Returns `lower`. Each panel of rows is orthogonalised against all earlier rows by matrix products, then row by row
  /// within the panel. Every projection is done twice for accuracy.
  Matrix run() {
    constexpr Index panel = 32;
    for (Index first = 0; first < basis_.rows(); first += panel) {
      const Index count = std::min(panel, basis_.rows() - first);
      const Eigen::VectorXd lengths = basis_.middleRows(first, count).rowwise().norm();
      for (int twice = 0; twice < 2; ++twice) project_out(first, count, 0, first);
      for (Index i = 0; i < count; ++i) finish(first, first + i, lengths(i));
    }
    return std::move(lower_);
  }

 private:
  /// Subtracts from rows first … first + count − 1 their projections onto rows begin … end − 1.
  void project_out(Index first, Index count, Index begin, Index end) {
    const Index others = end - begin;
    if (others == 0) return;
    auto rows = basis_.middleRows(first, count);
    Matrix coefficients(count, others);
    constexpr Index chunk = 64;
    for_chunks(
        others,
        [&](Index i, Index size) {
          coefficients.middleCols(i, size).noalias() = rows * basis_.middleRows(begin + i, size).transpose();
        },
        chunk);
    for_chunks(
        basis_.cols(),
        [&](Index j, Index size) {
          rows.middleCols(j, size).noalias() -= coefficients * basis_.block(begin, j, others, size);
        },
        columns_per_task);
    lower_.block(first, begin, count, others) += coefficients;
  }

  void finish(Index panel, Index t, double length) {
    const double initial = basis_.row(t).norm();
    for (int twice = 0; twice < 2; ++twice) project_out(t, 1, panel, t);
    // The rounding error along rows of earlier panels was small relative to the initial row. If little of the row
    // remains, the error must be projected out again.
    constexpr double small_fraction = 0.1;
    if (basis_.row(t).norm() < small_fraction * initial) {
      for (int twice = 0; twice < 2; ++twice) project_out(t, 1, 0, t);
    }
    const double remaining = basis_.row(t).norm();
    if (remaining > tolerance_ * length) {
      lower_(t, t) = remaining;
      basis_.row(t) /= remaining;
    } else {
      basis_.row(t).setZero();
    }
  }

  Matrix& basis_;
  double tolerance_;
  Matrix lower_;
};

/// Uses the Cholesky factorisation for f32: it is several times faster than Gram-Schmidt but loses half of the digits.
template <class T>
void row_basis(const T* x, Index rows, Index n, double tolerance, T* lower, T* basis) {
  const ScaledRows<T> scaled(x, rows, n);
  if (dtype_of<T> == DType::f32) {
    if (const std::optional<Matrix> factor = factor_of(scaled)) {
      write_lower(*factor, scaled.exponents(), lower);
      if (basis != nullptr) solve(*factor, scaled, basis);
      return;
    }
  }
  Matrix orthonormal = scaled.columns(0, n);
  write_lower(GramSchmidt(orthonormal, tolerance).run(), scaled.exponents(), lower);
  if (basis != nullptr)
    Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(basis, rows, n) =
        orthonormal.template cast<T>();
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
