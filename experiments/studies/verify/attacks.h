#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/studies/verify/statements.h"

namespace periscope::verify {

/// A search for the input that comes closest to a bound: ascent of the ratio of a statement, for one token.
struct Attack {
  std::string_view name;
  std::string_view about;              ///< description of the ratio
  std::string_view statement = {};     ///< id
  Statement::Factor factor = nullptr;  ///< instead of the statement's: without its loss factor √2 (1 − p_y)
  double limit = 1.0;                  ///< largest ratio in theory
  SublayerRule rule = {};
  NormKind norm = NormKind::rms;
  bool final_norm = false;
  bool unembedding = false;
  int width = 5;
  double required = 0.99;  ///< share of the limit that must be reached, so that the limit is the best constant

  [[nodiscard]] double ratio(const BoundCase& c) const {
    return verify::statement(statement).measure(c, evaluate(c), factor).ratio();
  }
};

struct BoundAttackResult : Attack {
  double reached = 0.0;  ///< the largest ratio of all starts
  BoundCase best = {};   ///< the case that reached it

  [[nodiscard]] double share() const { return reached / limit; }
  /// Not above the limit by more than rounding, and as close as required. `scale` multiplies the limit.
  [[nodiscard]] bool within(double scale) const { return reached <= scale * limit * attained_limit; }
  [[nodiscard]] bool close_enough() const { return share() >= required; }
  [[nodiscard]] bool passed(double scale) const { return within(scale) && close_enough(); }
};

std::span<const Attack> attacks();

/// Ascends log(ratio) over every number of x, W1, W2 and U from `starts` random cases.
BoundAttackResult run_attack(const Attack& attack, std::uint64_t seed, int starts);

/// Attacks T16 by construction: Peri sublayers whose every branch points along the stream. The ratio is rms over
/// bound, at the depth where it is farthest from 1.
BoundAttackResult grow_aligned(int sublayers, int width, double gain);

/// Gradients of W2 over factors on ‖h‖, under one placement. Statistics are over the stacks.
struct MassiveCurve {
  std::string placement;  ///< pre, peri, post
  bool final_norm = false;
  std::vector<double> gradient = {}, low = {}, high = {};  ///< ‖∂loss/∂W2‖: median, quantiles 0.16, 0.84 [factor]
  std::vector<double> bound = {};                          ///< T14's, median [factor]
  double ceiling = std::numeric_limits<double>::quiet_NaN();  ///< bound for every factor at once, median; NaN: none
  double largest_ratio = 0.0;                                 ///< gradient over bound, all stacks and factors
  double largest_to_ceiling = 0.0;                            ///< gradient over its own stack's ceiling
  double lowest_exponent = HUGE_VAL, highest_exponent = -HUGE_VAL;  ///< of ‖h‖ in the gradient, over the last decade

  /// In every stack the gradient grows like ‖h‖.
  [[nodiscard]] bool grows() const { return lowest_exponent > 0.99 && highest_exponent < 1.01; }
  /// No stack passes its ceiling, and none still grows.
  [[nodiscard]] bool is_bounded() const { return largest_to_ceiling <= attained_limit && highest_exponent < 0.01; }
  /// True if the gradient is within its bound, does not grow where a ceiling exists, and grows like ‖h‖ elsewhere.
  [[nodiscard]] bool passed() const {
    return largest_ratio <= attained_limit && (std::isnan(ceiling) ? grows() : is_bounded());
  }
};

inline constexpr int massive_stacks = 32, massive_width = 64, massive_hidden = 256;
std::vector<double> massive_factors();  ///< 1 … 1e6
/// Multiplies W1, and so h, of random ReLU stacks by each factor. The label is the class that a speaks most against, so
/// that 1 − p_y does not vanish. Pre-LN without and with a final norm, Peri-LN and Post-LN.
std::vector<MassiveCurve> sweep_massive(std::uint64_t seed);

}  // namespace periscope::verify
