#include "theory/kernels/discrete_rule.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

namespace periscope::theory {

DiscreteRule discrete_gauss_rule(const Vector& points, const Vector& weights, Index max_nodes) {
  const double total = weights.sum();
  if (!(total > 0.0)) return {};
  const Index steps = std::min(max_nodes, points.size());
  Matrix basis(points.size(), steps);
  Vector diagonal(steps);
  Vector off_diagonal = Vector::Zero(steps);
  const double rounding = 1e-13 * points.cwiseAbs().maxCoeff();
  basis.col(0) = (weights / total).cwiseSqrt();
  Index count = 0;
  while (count < steps) {
    Vector next = points.cwiseProduct(basis.col(count));
    diagonal(count) = next.dot(basis.col(count));
    ++count;
    // Two passes make `next` orthogonal to the basis, up to rounding.
    for (int pass = 0; pass < 2; ++pass) next -= basis.leftCols(count) * (basis.leftCols(count).transpose() * next);
    const double rest = next.norm();
    if (count == steps || !(rest > rounding)) break;
    off_diagonal(count - 1) = rest;
    basis.col(count) = next / rest;
  }
  if (count == 1) return {diagonal.head(1), Vector::Constant(1, total)};
  Eigen::SelfAdjointEigenSolver<Matrix> solver;
  solver.computeFromTridiagonal(diagonal.head(count), off_diagonal.head(count - 1), Eigen::ComputeEigenvectors);
  return {solver.eigenvalues(), total * solver.eigenvectors().row(0).transpose().cwiseAbs2()};
}

}  // namespace periscope::theory
