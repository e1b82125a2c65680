#include "theory/attention/grid_fit.h"

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <array>
#include <cstddef>

namespace periscope::theory {

Matrix node_products(const TokenGrid& grid, const Vector& x) {
  Matrix products = Matrix::Zero(grid.nodes(), grid.nodes());
  products.diagonal().head(grid.singles()) = x.head(grid.singles());
  for (const auto& [node, first, end] : grid.cells()) {
    for (Index t = first; t < end; ++t) {
      const double f = grid.upper_weight()(t);
      products(node, node) += (1.0 - f) * (1.0 - f) * x(t);
      products(node, node + 1) += f * (1.0 - f) * x(t);
      products(node + 1, node + 1) += f * f * x(t);
    }
    products(node + 1, node) = products(node, node + 1);
  }
  return products;
}

GridFit::GridFit(const TokenGrid& grid) : grid_(grid) {
  const Index g = grid.nodes();
  const auto entries = [g](Index node) { return std::array{node, g + node, node + 1}; };
  Matrix diagonal = Matrix::Zero(2 * g - 1, 2 * g - 1);  // band of O ↦ band of Wᵀ diag(W O Wᵀ) W
  for (const auto& [node, first, end] : grid.cells()) {
    for (Index t = first; t < end; ++t) {
      const double f = grid.upper_weight()(t);
      const std::array weights{(1.0 - f) * (1.0 - f), f * (1.0 - f), f * f};
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 3; ++j) {
          diagonal(entries(node)[i], entries(node)[j]) += weights[i] * (j == 1 ? 2.0 : 1.0) * weights[j];
        }
      }
    }
  }
  const Matrix own = node_products(grid, Vector::Ones(grid.tokens()));
  inverse_ = own.llt().solve(Matrix::Identity(g, g));
  kinks_ = Matrix::Zero(2 * g - 1, 2 * g - 1);
  for (std::size_t c = 0; c < grid.cells().size(); ++c) {
    const auto& [node, first, end] = grid.cells()[c];
    const Eigen::ArrayXd v = grid.kink_weight().segment(first, end - first).cast<double>();
    const double upper = (v * grid.upper_weight().segment(first, end - first).cast<double>().array()).sum();
    const double lower = v.sum() - upper;
    const std::array products{lower * lower, lower * upper, upper * upper};
    const double fit = products[0] * inverse_(node, node) + 2.0 * products[1] * inverse_(node, node + 1) +
                       products[2] * inverse_(node + 1, node + 1);  // squared norm of the fit of V's column
    const double sum = grid.kink_sums()(static_cast<Index>(c));
    if (sum == 0.0) continue;
    const double scale = sum / (v.sum() * v.sum() - fit);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        kinks_(entries(node)[i], entries(node)[j]) += scale * products[i] * (j == 1 ? -2.0 : 1.0);
      }
    }
  }
  // Band of B ↦ band of N⁻¹ B N⁻¹.
  Matrix solution(2 * g - 1, 2 * g - 1);
  const auto left = inverse_.topRows(g - 1);
  const auto below = inverse_.bottomRows(g - 1);
  solution.topLeftCorner(g, g) = inverse_.cwiseAbs2();
  solution.topRightCorner(g, g - 1) = 2.0 * inverse_.leftCols(g - 1).cwiseProduct(inverse_.rightCols(g - 1));
  solution.bottomLeftCorner(g - 1, g) = left.cwiseProduct(below);
  solution.bottomRightCorner(g - 1, g - 1) = left.leftCols(g - 1).cwiseProduct(below.rightCols(g - 1)) +
                                             left.rightCols(g - 1).cwiseProduct(below.leftCols(g - 1));
  const Matrix one = Matrix::Identity(2 * g - 1, 2 * g - 1);
  // Without kinks, the fit has the band u' = (1 − solution·diagonal)⁻¹ u. With kinks, u'' = (1 + solution·kinks)⁻¹ u'.
  const Matrix with_kinks = diagonal - kinks_ * (one + solution * kinks_).lu().inverse();
  correction_ = with_kinks * (one - solution * diagonal).lu().inverse();
}

Vector GridFit::band_of(const Matrix& x) const {
  Vector band(2 * x.rows() - 1);
  band << x.diagonal(), x.diagonal(1);
  return band;
}

Matrix GridFit::tridiagonal(const Vector& band) const {
  const Index g = grid_.nodes();
  Matrix x = Matrix::Zero(g, g);
  x.diagonal() = band.head(g);
  x.diagonal(1) = x.diagonal(-1) = band.tail(g - 1);
  return x;
}

FittedKernel GridFit::fitted(const Matrix& values) const {
  FittedKernel kernel{.between = grid_.between(values), .remainder = {}};
  kernel.between += solved(tridiagonal(kinks_ * band_of(kernel.between)));
  const Vector none = Vector::Zero(static_cast<Index>(grid_.cells().size()));
  kernel.remainder = grid_.all(values.diagonal()) - grid_.diagonal(kernel.between, none);
  kernel.remainder.head(grid_.singles()).setZero();
  return kernel;
}

Matrix GridFit::restricted(const Matrix& node_sums, const Vector& diagonal) const {
  const Vector sums = node_products(grid_, diagonal).rowwise().sum();  // Wᵀ diagonal, as rows of W sum to 1
  Vector paired = diagonal;
  paired.head(grid_.singles()).setZero();
  Matrix between = solved(node_sums - node_products(grid_, paired));
  between += solved(tridiagonal(correction_ * band_of(between)));
  return grid_.at_grid(between, inverse_ * sums);
}

}  // namespace periscope::theory
