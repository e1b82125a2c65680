#pragma once

#include "sim/numerics/number_format.h"
#include "theory/certify/parameters.h"

namespace periscope::theory {

/// The number of a format that x is rounded to: to nearest, ties to even; ±∞ beyond the largest.
double rounded_to(const NumberFormat& format, double x);

/// A stack's parameters as a run in a format holds them: every entry rounded to it.
class RoundedParameters final : public Parameters {
 public:
  /// The parameters outlive this.
  RoundedParameters(const Parameters& parameters, const NumberFormat& format)
      : parameters_(parameters), format_(format) {}

  [[nodiscard]] RowMatrix matrix(int layer, Weight weight) const override;
  void visit_rows(Weight weight, const BlockVisitor& visit) const override;
  [[nodiscard]] Eigen::VectorXd bias(int layer, Weight weight) const override;
  [[nodiscard]] NormParameters norm(int sublayer, Weight weight) const override;

  /// The largest magnitude of what was read so far, infinite if rounding made it so.
  [[nodiscard]] double largest() const { return largest_; }
  /// True if rounding changed any entry that was read so far.
  [[nodiscard]] bool changed() const { return changed_; }

 private:
  void round(double* values, Eigen::Index count) const;

  const Parameters& parameters_;
  NumberFormat format_;
  mutable double largest_ = 0.0;
  mutable bool changed_ = false;
};

}  // namespace periscope::theory
