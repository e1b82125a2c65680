#pragma once

#include <cmath>
#include <span>
#include <string_view>

#include "experiments/studies/verify/evaluate.h"
#include "sim/numerics/allowances.h"

namespace periscope::verify {

/// The three kinds of statement about a gradient, and what is expected of each.
enum class StatementKind {
  bound,      ///< measured ≤ bound, for every input
  identity,   ///< measured = formula, to rounding
  refutable,  ///< claimed as a bound, but false: inputs that break it must be found
};

/// A case held against a statement. For an identity `measured` is the deviation and `bound` what rounding allows.
struct StatementOutcome {
  double measured = 0.0;
  double bound = 0.0;
  double rounding = 0.0;  ///< absolute; what rounding may add to `measured`

  /// `scale` multiplies the bound. Not the negation of a comparison by chance: NaN is a violation.
  [[nodiscard]] bool violates(double scale) const { return !(measured <= scale * bound + rounding); }
  /// The bound says nothing: it is infinite (a norm of zero), or zero and met.
  [[nodiscard]] bool is_trivial() const { return !(bound > 0.0 && bound < HUGE_VAL) && !violates(1.0); }
  /// Rounding is small enough beside the bound for the ratio to mean something.
  [[nodiscard]] bool is_resolved() const { return rounding <= resolved_share * bound; }
  [[nodiscard]] double ratio() const { return measured / bound; }
};

/// A row of the table of everything that `verify` checks for one case.
struct Statement {
  std::string_view id;
  StatementKind kind;
  std::string_view source;
  std::string_view text;
  bool (*applies)(const BoundCase&);
  StatementOutcome (*check)(const BoundCase&, const Evaluation&);
  /// The largest ratio of measured to bound that T14–T16 leave possible at width D.
  double (*limit)(int width);
};

std::span<const Statement> statements();

/// Index of the statement called `id`. Throws std::logic_error if there is none.
std::size_t statement_index(std::string_view id);

}  // namespace periscope::verify
