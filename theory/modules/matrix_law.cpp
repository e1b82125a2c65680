#include "theory/modules/matrix_law.h"

#include <utility>

#include "sim/spec/weight_scales.h"

namespace periscope::theory {
namespace {

Vector squares(const std::vector<double>& sizes) {
  return Eigen::Map<const Vector>(sizes.data(), static_cast<Eigen::Index>(sizes.size())).cwiseAbs2();
}

}  // namespace

MatrixLaw matrix_law(const StackSpec& spec, int layer, Weight weight) {
  const double sigma = stddev_of(spec, layer, weight);
  const VarianceProfile profile = profile_of(spec, layer, weight);
  return {.variance = sigma * sigma, .rows = squares(profile.rows), .columns = squares(profile.columns)};
}

double mean_of(const Vector& side) { return side.size() == 0 ? 1.0 : side.mean(); }

double unevenness(const Vector& powers) {
  const double mean = mean_of(powers);
  return powers.size() == 0 || !(mean > 0.0) ? 1.0 : powers.cwiseAbs2().mean() / (mean * mean);
}

Matrix read_kernel(const ChannelKernel& x, const Vector& columns) {
  if (columns.size() == 0) return x.total.product;
  if (x.is_uniform()) return columns.mean() * x.total.product;
  Matrix sum = Matrix::Zero(x.total.product.rows(), x.total.product.cols());
  for (const ChannelTerm& term : x.terms) {
    const double seen =
        term.power.size() == 0 ? columns.mean() : columns.dot(term.power) / static_cast<double>(columns.size());
    sum += seen * term.kernel.product;
  }
  return sum;
}

ChannelKernel with_row_powers(const Matrix& product, const Vector& rows, int width) {
  if (rows.size() == 0) return {TokenKernel::of_independent_features(product, width), {}};
  const double mean = rows.mean();
  return {TokenKernel::of_independent_features(mean * product, width),
          {{rows, {product, product * (mean / static_cast<double>(width))}}}};
}

}  // namespace periscope::theory
