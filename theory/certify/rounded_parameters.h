#pragma once

#include <cmath>
#include <optional>

#include "sim/numerics/number_format.h"
#include "theory/certify/parameters.h"

namespace periscope::theory {

/// The number of a format that x is rounded to: to nearest, ties to even; ±∞ beyond the largest.
double rounded_to(const NumberFormat& format, double x);

/// One entry of a stack's parameters, row-major.
struct WeightEntry {
  ParameterId parameter;
  Index entry;
  double value;           ///< as stored, before it is rounded
  std::string name = {};  ///< of the parameter and the entry, as Parameters gives it
};

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
  [[nodiscard]] std::string entry_name(const ParameterId& id, Index entry) const override {
    return parameters_.entry_name(id, entry);
  }

  /// The largest magnitude of what was read so far, infinite if rounding made it so.
  [[nodiscard]] double largest() const { return largest_ ? rounded_to(format_, std::abs(largest_->value)) : 0.0; }
  /// The entry with the largest magnitude; nullopt if all are 0.
  [[nodiscard]] const std::optional<WeightEntry>& largest_entry() const { return largest_; }
  /// True if rounding changed any entry that was read so far.
  [[nodiscard]] bool changed() const { return changed_; }

 private:
  /// `first` is the index of the first value in the parameter.
  void round(double* values, Index count, const ParameterId& parameter, Index first = 0) const;

  const Parameters& parameters_;
  NumberFormat format_;
  mutable std::optional<WeightEntry> largest_;
  mutable bool changed_ = false;
};

}  // namespace periscope::theory
