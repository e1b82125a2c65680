#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/studies/verify/bound_case.h"
#include "sim/numerics/allowances.h"

namespace periscope::verify {

/// A search for the input that comes closest to a bound: gradient ascent from many random starts.
struct Attack {
  std::string name;
  std::string about;          ///< what is made large
  double limit = 0.0;         ///< what theory says it cannot pass
  std::string limit_formula;  ///< the same for people
  double required = 0.0;      ///< a share of the limit that must be reached, so that the limit is the best constant
  std::function<BoundCase(std::uint64_t seed, std::uint32_t start)> begin;
  std::function<double(const BoundCase&)> objective;
};

/// The result of an attack.
struct BoundAttackResult {
  std::string name, about, limit_formula;
  double limit = 0.0, required = 0.0;
  double reached = 0.0;  ///< the largest objective of all starts
  double median = 0.0;   ///< over the starts
  BoundCase best;

  [[nodiscard]] double share() const { return reached / limit; }
  /// Not above the limit by more than rounding, and as close as required. `scale` multiplies the limit.
  [[nodiscard]] bool within(double scale) const { return reached <= scale * limit * attained_limit; }
  [[nodiscard]] bool close_enough() const { return share() >= required; }
};

/// Attacks on T14 (every placement, RMSNorm and LayerNorm, whole matrix and entry), T14d, T16, the paper's constant
/// 4 and the reviews' bound.
std::vector<Attack> attacks();

/// Ascent of log(objective) over every number of x, W1, W2 and U, by central differences and a line search that
/// grows and shrinks its step. `starts` runs, on all threads; the result does not depend on their number.
BoundAttackResult run_attack(const Attack& attack, std::uint64_t seed, int starts);

}  // namespace periscope::verify
