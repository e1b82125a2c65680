#include <cmath>

#include "theory/norms/norm_law.h"

namespace periscope::theory {
namespace {

/// Returns the ratio of the square in the norm's formula to the mean square: D if the formula sums squares, else 1.
double features_of(const NormUse& norm) { return norm.width / formula_of(norm.kind).count(norm.width); }

/// Returns mean square + eps of every token (LayerNorm: variance + eps), eps divided by D if the formula sums squares.
Vector square_of(const TokenKernel& x, const NormUse& norm) {
  const Vector square =
      subtracts_mean(norm.kind) ? Vector((x.product - x.mean).diagonal()) : Vector(x.product.diagonal());
  return square.array() + norm.eps / features_of(norm);
}

NormTrace divisor_trace(const TokenKernel& x, const NormUse& norm) { return {square_of(x, norm)}; }

Vector slope_of(const NormTrace& trace, const NormUse& norm, double gamma) {
  const double gain = gamma / std::sqrt(features_of(norm));
  return trace.square.unaryExpr([&](double r) { return r > 0 ? gain / std::sqrt(r) : 0.0; });
}

TokenKernel kernel_of(const TokenKernel& x, const NormUse& norm, double gamma) {
  const bool centred = subtracts_mean(norm.kind);
  const Matrix k = centred ? Matrix(x.product - x.mean) : x.product;
  const Vector scale = slope_of(divisor_trace(x, norm), norm, gamma);
  const auto rescaled = [&](const Matrix& m) { return Matrix(scale.asDiagonal() * m * scale.asDiagonal()); };
  return {rescaled(k), centred ? Matrix(Matrix::Zero(k.rows(), k.cols())) : rescaled(x.mean)};
}

Matrix gradient_of(const Matrix& g, const NormTrace& trace, const NormUse& norm, double gamma) {
  const Vector scale = slope_of(trace, norm, gamma);
  return scale.asDiagonal() * g * scale.asDiagonal();
}

void on_coordinates(Eigen::Ref<Matrix> x, const NormUse& norm, double gamma) {
  const NormFormula formula = formula_of(norm.kind);
  if (formula.subtracts_mean) x.col(0).setZero();
  const Vector square = x.rowwise().squaredNorm().array() / formula.count(norm.width) + norm.eps;
  const Vector scale = square.unaryExpr([&](double s) { return s == 0.0 ? 0.0 : gamma / std::sqrt(s); });
  x = scale.asDiagonal() * x;
}

}  // namespace

const NormLaw dividing_law{.kernel = kernel_of,
                           .trace = divisor_trace,
                           .slope = slope_of,
                           .gradient = gradient_of,
                           .coordinates = on_coordinates,
                           .elasticity = [](double, const NormUse&) { return 0.0; }};

}  // namespace periscope::theory
