#include "theory/certify/rounded_parameters.h"

#include <algorithm>
#include <cmath>

namespace periscope::theory {

void RoundedParameters::round(double* values, Index count, const ParameterId& parameter, Index first) const {
  double largest = 0.0;
#pragma omp parallel for schedule(static) reduction(max : largest) if (count > (1 << 16))
  for (Index i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  if (largest > (largest_ ? std::abs(largest_->value) : 0.0)) {
    const double* at = std::find_if(values, values + count, [&](double v) { return std::abs(v) == largest; });
    largest_ = {parameter, first + (at - values), *at};
  }
  const Rounding to_format(format_, Rounding::Overflow::infinite);
  bool changed = false;
#pragma omp parallel for schedule(static) reduction(|| : changed) if (count > (1 << 16))
  for (Index i = 0; i < count; ++i) {
    const double rounded = to_format(values[i]);
    changed = changed || rounded != values[i];
    values[i] = rounded;
  }
  changed_ = changed_ || changed;
}

RowMatrix RoundedParameters::matrix(const ParameterId& id) const {
  RowMatrix w = parameters_.matrix(id);
  round(w.data(), w.size(), id);
  return w;
}

void RoundedParameters::visit_rows(Weight weight, const BlockVisitor& visit) const {
  parameters_.visit_rows(weight, [&](Index first, const RowMatrix& rows) {
    RowMatrix rounded = rows;
    round(rounded.data(), rounded.size(), matrix_id(0, weight), first * rounded.cols());
    visit(first, rounded);
  });
}

Eigen::VectorXd RoundedParameters::bias(int layer, Weight weight) const {
  Eigen::VectorXd b = parameters_.bias(layer, weight);
  round(b.data(), b.size(), bias_of(matrix_id(layer, weight)));
  return b;
}

NormParameters RoundedParameters::norm(int sublayer, Weight weight) const {
  NormParameters n = parameters_.norm(sublayer, weight);
  const ParameterId gain = gain_id(sublayer, weight);
  // For a gain stored as w, some runs round w, which near w = −1 changes 1 + w by far more than rounding the sum does.
  // Other runs round the sum. Both results have the same sign, so the larger one bounds both.
  Eigen::VectorXd merged = n.gain;
  n.gain.array() -= n.plus;
  round(n.gain.data(), n.gain.size(), gain);
  n.gain.array() += n.plus;
  if (n.plus != 0.0) {
    round(merged.data(), merged.size(), gain);
    n.gain = (merged.array().abs() > n.gain.array().abs()).select(merged, n.gain);
  }
  round(n.bias.data(), n.bias.size(), bias_of(gain));
  if (n.alpha != 1.0) round(&n.alpha, 1, alpha_of(gain));
  return n;
}

}  // namespace periscope::theory
