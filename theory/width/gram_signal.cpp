#include "theory/width/gram_signal.h"

#include <Eigen/Cholesky>
#include <Eigen/QR>
#include <cmath>
#include <limits>

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

/// The least pivot of matrices with unit diagonal: below it Cholesky loses too many digits, and rows count as repeated.
constexpr double well_conditioned = 1e-8;
/// The size that rounding leaves of a pivot that is zero, with a margin.
constexpr double vanishing = 1e-13;

/// Rows of x brought to length 1; a row that is 0 stays 0.
Vector inverse_of(const Vector& length) {
  return length.unaryExpr([](double n) { return n > 0.0 ? 1.0 / n : 1.0; });
}

/// Cholesky of a matrix with unit diagonal, of which the lower half counts, if that is accurate.
bool cholesky(const Matrix& unit, Matrix& lower) {
  const Eigen::LLT<Matrix> llt(unit);
  if (llt.info() != Eigen::Success) return false;
  lower = llt.matrixL();
  return lower.diagonal().minCoeff() > std::sqrt(well_conditioned);
}

Matrix gram_of(const Matrix& x) {
  Matrix gram = Matrix::Zero(x.rows(), x.rows());
  gram.selfadjointView<Eigen::Lower>().rankUpdate(x);
  return gram;
}

}  // namespace

Matrix square_root(const Matrix& x) {
  const Index rows = x.rows();
  if (x.cols() <= rows) return x;
  const Vector length = x.rowwise().norm();
  const Matrix unit = inverse_of(length).asDiagonal() * x;
  Matrix lower;
  if (!cholesky(gram_of(unit), lower)) {
    const Eigen::HouseholderQR<Matrix> qr(unit.transpose());
    lower = Matrix(qr.matrixQR().topRows(rows).triangularView<Eigen::Upper>()).transpose();
  }
  return length.asDiagonal() * lower;
}

Matrix root_of_gram(const Matrix& gram) {
  const Vector length = gram.diagonal().cwiseSqrt();
  const Vector inverse = inverse_of(length);
  const Matrix unit = inverse.asDiagonal() * gram * inverse.asDiagonal();
  Matrix lower;
  if (!cholesky(unit, lower)) {
    const Eigen::LDLT<Matrix> ldlt(unit);
    const Vector pivots = ldlt.vectorD().unaryExpr([](double d) { return d < vanishing ? 0.0 : std::sqrt(d); });
    lower = ldlt.transpositionsP().transpose() * Matrix(Matrix(ldlt.matrixL()) * pivots.asDiagonal());
  }
  return length.asDiagonal() * lower;
}

Matrix compacted(const Matrix& x) {
  if (x.cols() <= x.rows() + 1) return x;
  Matrix all(x.rows(), x.rows() + 1);
  all << x.col(0), square_root(x.rightCols(x.cols() - 1));
  return all;
}

Matrix independent_features(const Matrix& root, Index frame, int width, NormalStream& stream) {
  const Matrix inside = stream.normals(root.cols(), frame);
  const Matrix beyond = stream.wishart_factor(root.cols(), width - frame);
  Matrix features(root.rows(), frame + beyond.cols());
  features << root * inside, root * beyond;
  return features;
}

SignalReading read_signal(const Eigen::Ref<const Matrix>& x, int width) {
  const Vector square = x.rowwise().squaredNorm();
  const auto tokens = static_cast<double>(x.rows());
  const Vector mean = x.col(0) / std::sqrt(static_cast<double>(width));
  const double second_moment = square.mean() / width;
  // Σ_{t≠s} cos = ‖Σ_t x_t/‖x_t‖‖² − T.
  const Vector inverse = square.cwiseSqrt().cwiseInverse();
  const double all = (inverse.transpose() * x).squaredNorm();
  return {.second_moment = second_moment,
          .variance = x.rightCols(x.cols() - 1).squaredNorm() / (tokens * width),
          .mean = mean.mean(),
          .token_cosine =
              x.rows() > 1 ? (all - tokens) / (tokens * (tokens - 1.0)) : std::numeric_limits<double>::quiet_NaN()};
}

}  // namespace periscope::theory
