#pragma once

#include <cmath>
#include <optional>

#include "sim/numerics/rounding.h"
#include "theory/certify/parameters.h"

namespace periscope::theory {

/// Rounds x to a format, to nearest with ties to even; ±∞ beyond the largest number.
inline double rounded_to(const NumberFormat& format, double x) {
  return Rounding(format, Rounding::Overflow::infinite)(x);
}

/// One entry of a stack's parameters.
struct WeightEntry {
  ParameterId parameter;
  Index entry;            ///< row-major index
  double value;           ///< value before rounding
  std::string name = {};  ///< result of Parameters::entry_name
};

/// Parameters of a stack with every entry rounded to a format.
class RoundedParameters final : public Parameters {
 public:
  /// `parameters` must outlive this object.
  RoundedParameters(const Parameters& parameters, const NumberFormat& format)
      : parameters_(parameters), format_(format) {}

  [[nodiscard]] RowMatrix matrix(const ParameterId& id) const override;
  void visit_rows(Weight weight, const BlockVisitor& visit) const override;
  [[nodiscard]] Eigen::VectorXd bias(int layer, Weight weight) const override;
  [[nodiscard]] NormParameters norm(int sublayer, Weight weight) const override;
  [[nodiscard]] std::string entry_name(const ParameterId& id, Index entry) const override {
    return parameters_.entry_name(id, entry);
  }

  /// Returns the largest rounded magnitude of all entries read so far; infinite if rounding overflows.
  [[nodiscard]] double largest() const { return largest_ ? rounded_to(format_, std::abs(largest_->value)) : 0.0; }
  /// Returns the entry of largest magnitude read so far; nullopt if all are 0.
  [[nodiscard]] const std::optional<WeightEntry>& largest_entry() const { return largest_; }
  /// Returns true if rounding changed any entry read so far.
  [[nodiscard]] bool changed() const { return changed_; }

 private:
  /// `first`: index of the first value within the parameter.
  void round(double* values, Index count, const ParameterId& parameter, Index first = 0) const;

  const Parameters& parameters_;
  NumberFormat format_;
  mutable std::optional<WeightEntry> largest_;
  mutable bool changed_ = false;
};

}  // namespace periscope::theory
