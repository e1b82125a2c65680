#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/reference/ops.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

double length_of(const std::vector<double>& row) {
  double sum = 0.0;
  for (const double v : row) sum += v * v;
  return std::sqrt(sum);
}

/// Takes from `row` its part along the basis rows 0 … t−1, and adds its coefficients to `lower`.
void take_out(std::vector<double>& row, const std::vector<double>& basis, Index t, double* lower) {
  const auto n = static_cast<Index>(row.size());
  for (Index i = 0; i < t; ++i) {
    const double* const q = basis.data() + i * n;
    double along = 0.0;
    for (Index j = 0; j < n; ++j) along += row[static_cast<std::size_t>(j)] * q[j];
    for (Index j = 0; j < n; ++j) row[static_cast<std::size_t>(j)] -= along * q[j];
    lower[i] += along;
  }
}

}  // namespace

// Twice, because what is left after once may be small and then mostly rounding error.
void ReferenceBackend::run(const op::RowBasis& o) const {
  const Index rows = o.x.rows();
  const Index n = o.x.cols();
  double* const lower = elements<double>(o.b.lower);
  std::vector<double> basis(static_cast<std::size_t>(rows * n), 0.0);
  for (Index t = 0; t < rows; ++t) {
    const double* const from = elements<double>(o.x) + t * n;
    double* const of_row = lower + t * rows;
    for (Index i = 0; i < rows; ++i) of_row[i] = 0.0;
    double largest = 0.0;  // squares of larger or smaller numbers may leave the range of double
    for (Index j = 0; j < n; ++j) largest = from[j] == from[j] ? std::max(largest, std::abs(from[j])) : from[j];
    if (!std::isfinite(largest)) {
      for (Index i = 0; i <= t; ++i) of_row[i] = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    if (largest == 0.0) continue;
    const int exponent = std::ilogb(largest);
    std::vector<double> row(from, from + n);
    for (double& v : row) v = std::ldexp(v, -exponent);
    const double length = length_of(row);
    take_out(row, basis, t, of_row);
    take_out(row, basis, t, of_row);
    const double left = length_of(row);
    if (left > dependence_tolerance(o.x.dtype()) * length) {
      of_row[t] = left;
      for (Index j = 0; j < n; ++j)
        basis[static_cast<std::size_t>(t * n + j)] = row[static_cast<std::size_t>(j)] / left;
    }
    for (Index i = 0; i <= t; ++i) of_row[i] = std::ldexp(of_row[i], exponent);
  }
  if (!o.b.basis.empty()) std::copy(basis.begin(), basis.end(), elements<double>(o.b.basis));
}

}  // namespace periscope
