#pragma once

#include <cmath>
#include <numbers>
#include <span>
#include <string_view>
#include <vector>

#include "experiments/studies/verify/bound_case.h"
#include "sim/numerics/tolerances.h"
#include "theory/certify/bounds.h"

namespace periscope::verify {

/// The terms of the bounds for one token.
struct TokenTerms {
  theory::GradientPath path;  ///< from the loss to a; 1 − p_y is summed over wrong labels, to avoid cancellation
  double hidden = 0.0;        ///< ‖h‖
  /// Bound on rounding of the gradient of a, relative to the bounds' factors (evaluate.cpp). Infinite if the squares
  /// inside a norm underflow: the token is then not judged.
  double rounding = 0.0;
  double stream_rms = 0.0, branch_rms = 0.0, out_rms = 0.0;  ///< rms of αx, β·branch, and their sum
  double cosine = 0.0;                                       ///< cosine of αx and β·branch; 0 if either is 0
};

/// The gradient of a case, measured by the reference backend in f64, and the terms of the bounds.
struct Evaluation {
  std::vector<TokenTerms> tokens;
  std::vector<double> hidden;    ///< h [T, units]
  std::vector<double> wrong;     ///< p − y [T, classes]; the label's entry is −(1 − p_y)
  std::vector<double> module;    ///< a [T, D]
  std::vector<double> gradient;  ///< ∂loss/∂W2 [D, units]
  double gradient_norm = 0.0;    ///< Frobenius norm of `gradient`
};

Evaluation evaluate(const BoundCase& c);

double largest_magnitude(std::span<const double> x);

enum class StatementKind {
  bound,      ///< measured ≤ bound, for every input
  identity,   ///< measured = formula, up to rounding
  refutable,  ///< claimed as a bound, but false: inputs that violate it must be found
};

/// A case compared with a statement. For an identity, `measured` is the deviation and `bound` the rounding bound.
struct StatementOutcome {
  double measured = 0.0;
  double bound = 0.0;
  double rounding = 0.0;  ///< bound on the absolute rounding error of `measured`
  const struct Statement* statement = nullptr;

  /// Returns whether `measured` exceeds the bound times `scale`, beyond rounding; true for NaN.
  [[nodiscard]] bool violates(double scale) const { return !(measured <= scale * bound + rounding); }
  /// Returns whether the bound is infinite (a norm's input is zero), or zero and not exceeded.
  [[nodiscard]] bool is_trivial() const { return !(bound > 0.0 && bound < HUGE_VAL) && !violates(1.0); }
  /// Returns whether rounding is small enough relative to the bound for a meaningful ratio.
  [[nodiscard]] bool is_resolved() const { return rounding <= resolved_share * bound; }
  [[nodiscard]] double ratio() const { return measured / bound; }
  /// Returns whether the case violates the statement. `scale` multiplies bounds that should hold.
  [[nodiscard]] bool is_broken(double scale) const;
};

/// The smallest valid constants in the bounds of T14 on the gradient's norm and on a single entry.
inline constexpr double whole_constant = std::numbers::sqrt2, entry_constant = 0.5 * (1.0 + std::numbers::sqrt2);

/// A statement that `verify` checks.
struct Statement {
  using Factor = double (*)(const theory::GradientPath&);
  std::string_view id;
  StatementKind kind;
  std::string_view text;
  bool (*applies)(const BoundCase&);
  StatementOutcome (*measure)(const BoundCase&, const Evaluation&, Factor);
  Factor factor = nullptr;        ///< a token's bound divided by ‖h‖ or |h_i|
  double largest_ratio = 1.0;     ///< largest ratio of measured to bound that T14–T16 allow
  bool grows_with_width = false;  ///< multiply `largest_ratio` by D

  [[nodiscard]] StatementOutcome check(const BoundCase& c, const Evaluation& e) const;
  [[nodiscard]] double limit(int width) const { return largest_ratio * (grows_with_width ? width : 1); }
  [[nodiscard]] bool should_hold() const { return kind != StatementKind::refutable; }
};

std::span<const Statement> statements();

/// Throws std::logic_error for an unknown id.
const Statement& statement(std::string_view id);

/// Returns the outcomes of all statements that apply to a case.
std::vector<StatementOutcome> check_statements(const BoundCase& c, const Evaluation& e);

}  // namespace periscope::verify
