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

/// Subtracts from `row` its projection onto basis rows 0 … t−1, and adds the coefficients to `lower`.
void project_out(std::vector<double>& row, const std::vector<double>& basis, Index t, double* lower) {
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

// Orthogonalises twice: the remainder after one projection may be so small that it is mostly rounding error.
void ReferenceBackend::run(const op::RowBasis& o) const {
  const Index rows = o.x.rows();
  const Index n = o.x.cols();
  double* const lower = elements<double>(o.b.lower);
  std::vector<double> basis(static_cast<std::size_t>(rows * n), 0.0);
  for (Index t = 0; t < rows; ++t) {
    const double* const from = elements<double>(o.x) + t * n;
    double* const lower_row = lower + t * rows;
    for (Index i = 0; i < rows; ++i) lower_row[i] = 0.0;
    double largest = 0.0;  // rows are scaled by it, so that squares neither overflow nor underflow
    for (Index j = 0; j < n; ++j) largest = from[j] == from[j] ? std::max(largest, std::abs(from[j])) : from[j];
    if (!std::isfinite(largest)) {
      for (Index i = 0; i <= t; ++i) lower_row[i] = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    if (largest == 0.0) continue;
    const int exponent = std::ilogb(largest);
    std::vector<double> row(from, from + n);
    for (double& v : row) v = std::ldexp(v, -exponent);
    const double length = length_of(row);
    project_out(row, basis, t, lower_row);
    project_out(row, basis, t, lower_row);
    const double remaining = length_of(row);
    if (remaining > dependence_tolerance(o.x.dtype()) * length) {
      lower_row[t] = remaining;
      for (Index j = 0; j < n; ++j)
        basis[static_cast<std::size_t>(t * n + j)] = row[static_cast<std::size_t>(j)] / remaining;
    }
    for (Index i = 0; i <= t; ++i) lower_row[i] = std::ldexp(lower_row[i], exponent);
  }
  if (!o.b.basis.empty()) std::copy(basis.begin(), basis.end(), elements<double>(o.b.basis));
}

}  // namespace periscope
