#include "theory/attention/token_rows.h"

#include <Eigen/Eigenvalues>

namespace periscope::theory {

Matrix eigen_factor_of(const Matrix& x) {
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(x);
  return solver.eigenvectors() * solver.eigenvalues().cwiseMax(0.0).cwiseSqrt().asDiagonal();
}

Vector kinks_of(const Matrix& between, const TokenGrid& grid) { return grid.kinks(between).cwiseMax(0.0); }

Vector residual_variance(const Vector& all, const Vector& shared, double scale) {
  constexpr double tolerance = 1e-12;
  const double largest = all.cwiseAbs().maxCoeff();
  return ((all - shared).array() > tolerance * largest).select((all - shared) / scale, 0.0);
}

TokenRows::TokenRows(const Matrix& k, const TokenGrid& grid, Centred centred)
    : grid_(grid), scale_(scale_of(k)), unit_(grid.all(k.diagonal()) / scale_) {
  const Matrix between = grid.between(k) / scale_;
  const Vector c = kinks_of(between, grid);
  kinks_ = c.cwiseSqrt().cast<float>();
  if (centred == Centred::no) {
    const Matrix f = eigen_factor_of(between);
    factor_ = f.cast<float>();
    residual_ = residual_variance(unit_, grid.diagonal(f * f.transpose(), c), 1.0).cwiseSqrt().cast<float>();
    return;
  }
  const CentredKernel kernel(between, 1.0);
  factor_ = eigen_factor_of(kernel.unit.cast<double>()).cast<float>();
  residual_ = residual_variance(unit_, grid.diagonal(between, c), 1.0).cwiseSqrt().cast<float>();
  if (kernel.vanishes()) kinks_.setZero();
}

Sample TokenRows::draw(Index features, NormalStream& numbers) const {
  const Sample nodes = factor_ * numbers.normals_float(factor_.cols(), features);
  const Sample kinks = kinks_.asDiagonal() * numbers.normals_float(kinks_.size(), features);
  Sample rows = numbers.normals_float(grid_.tokens(), features);
  rows.array().colwise() *= residual_.array();
  grid_.add_interpolated(rows, nodes, kinks);
  return rows;
}

}  // namespace periscope::theory
