#include "theory/certify/spectral_norm.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/parallel_for.h"
#include "theory/certify/outward.h"

namespace periscope::theory {
namespace {

constexpr double epsilon = std::numeric_limits<double>::epsilon();
constexpr Index block = 128;

/// Estimates the largest eigenvalue from below.
double power_iteration(const RowMatrix& gram) {
  // The start column is orthogonal to the leading eigenvector only if the eigenvector is 0 at this index.
  Index start = 0;
  gram.diagonal().maxCoeff(&start);
  Eigen::VectorXd x = gram.col(start);
  double estimate = 0.0;
  for (int step = 0; step < 100; ++step) {
    const double norm = x.norm();
    if (!(norm > 0.0)) return estimate;
    x /= norm;
    const Eigen::VectorXd y = gram * x;
    const double next = x.dot(y);
    const bool settled = step > 8 && next - estimate < 1e-5 * next;
    estimate = std::max(estimate, next);
    if (settled) break;
    x = y;
  }
  return estimate;
}

/// Fills a symmetric matrix by row blocks of its lower triangle, one thread per block. Entries sum `terms` products.
template <class Fill>
void lower_blocks(RowMatrix& y, Index terms, const Fill& fill) {
  const Index blocks = (y.rows() + block - 1) / block;
  const auto fill_block = [&](Index k) {
    const Index i = blocks - 1 - k;  // blocks with the longest rows first
    const Index rows = std::min(block, y.rows() - i * block);
    const Index cols = i * block + rows;
    fill(y.block(i * block, 0, rows, cols), i * block, rows, cols);
  };
  parallel_for(blocks, fill_block, y.size() * terms > (1 << 22));
  y.triangularView<Eigen::StrictlyUpper>() = y.transpose();
}

/// Returns aᵀ a.
RowMatrix gram_of_columns(const RowMatrix& a) {
  RowMatrix y(a.cols(), a.cols());
  lower_blocks(y, a.rows(), [&](auto target, Index first, Index rows, Index cols) {
    target.noalias() = a.middleCols(first, rows).transpose() * a.leftCols(cols);
  });
  return y;
}

/// Bounds the largest eigenvalue of a Gram matrix whose trace is near 1.
double scaled_eigenvalue_bound(const RowMatrix& gram, Index terms) {
  const auto n = static_cast<double>(gram.rows());
  const double trace = gram.trace() * (1.0 + n * epsilon);
  const double of_gram = (static_cast<double>(terms) + 2.0) * epsilon * trace;
  for (double mu = std::max(power_iteration(gram) * 1.002, trace / n); mu < trace; mu *= 1.02) {
    RowMatrix shifted = -gram;
    shifted.diagonal().array() += mu;
    if (Eigen::LLT<RowMatrix>(shifted).info() != Eigen::Success) continue;
    return std::min(trace + of_gram, mu + (n + 3.0) * epsilon * n * mu + of_gram);
  }
  return trace + of_gram;
}

}  // namespace

RowMatrix product_transposed(const RowMatrix& a, const RowMatrix& b) {
  RowMatrix y(a.rows(), b.rows());
  const Index blocks = (a.rows() + block - 1) / block;
  const auto fill = [&](Index i) {
    const Index rows = std::min(block, a.rows() - i * block);
    y.middleRows(i * block, rows).noalias() = a.middleRows(i * block, rows) * b.transpose();
  };
  parallel_for(blocks, fill, a.rows() * b.rows() * a.cols() > (1 << 22));
  return y;
}

RowMatrix gram_of(const RowMatrix& a) {
  RowMatrix y(a.rows(), a.rows());
  lower_blocks(y, a.cols(), [&](auto target, Index first, Index rows, Index cols) {
    target.noalias() = a.middleRows(first, rows) * a.topRows(cols).transpose();
  });
  return y;
}

double largest_eigenvalue_bound(const RowMatrix& gram, Index terms) {
  const double trace = gram.trace();
  if (!std::isfinite(largest_of(gram)) || !std::isfinite(trace)) return infinity;
  if (!(trace > 0.0)) return largest_of(gram) == 0.0 ? 0.0 : infinity;
  const int e = scale_exponent(trace);
  return outward(std::ldexp(scaled_eigenvalue_bound(gram * std::ldexp(1.0, -e), terms), e));
}

double spectral_bound(const RowMatrix& a) {
  const double largest = largest_of(a);
  if (largest == 0.0 || !std::isfinite(largest)) return largest;
  const int e = scale_exponent(largest);
  const RowMatrix scaled = a * std::ldexp(1.0, -e);
  const bool wide = a.cols() >= a.rows();
  const RowMatrix gram = wide ? gram_of(scaled) : gram_of_columns(scaled);
  return outward(std::ldexp(std::sqrt(largest_eigenvalue_bound(gram, wide ? a.cols() : a.rows())), e));
}

double spectral_norm(std::span<const double> w, int rows, int cols) {
  const Eigen::Map<const RowMatrix> m(w.data(), rows, cols);
  const double scale = m.cwiseAbs().maxCoeff();
  if (!(scale > 0.0)) return 0.0;
  const RowMatrix unit = m / scale;
  const RowMatrix gram = rows < cols ? RowMatrix(unit * unit.transpose()) : RowMatrix(unit.transpose() * unit);
  return scale *
         std::sqrt(Eigen::SelfAdjointEigenSolver<RowMatrix>(gram, Eigen::EigenvaluesOnly).eigenvalues().maxCoeff());
}

}  // namespace periscope::theory
