#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/study/study.h"
#include "experiments/studies/verify/statements.h"

namespace periscope::verify {

struct VerifyConfig {
  std::uint64_t seed = 0;
  int cases = 20000;
  double scale = 1.0;       ///< multiplies every bound that should hold
  int starts = 8;           ///< number of starts per attack
  std::string replay = {};  ///< file with the only case to check
  std::string out = {};     ///< folder for the cases of violations; "": none
};

/// The outcomes of a statement over all cases, or over the cases of one width. Quantiles are accurate to one bin.
struct Tally {
  static constexpr int lowest = -12, highest = 4;  ///< exponents of ten at the ends of the histogram
  static constexpr int coarse = 30;                ///< bins per decade in tallies of one width and in result files
  explicit Tally(int bins_per_decade = 600)
      : per_decade(bins_per_decade), histogram(static_cast<std::size_t>((highest - lowest) * per_decade)) {}

  std::uint64_t cases = 0;
  std::uint64_t trivial = 0;  ///< cases whose bound is infinite, or zero and not exceeded
  std::uint64_t violations = 0;
  double largest = 0.0;  ///< largest ratio
  std::optional<std::uint64_t> first_violation = {}, largest_case = {};
  int per_decade;
  /// Histogram of log10(ratio) over cases with is_resolved(). Bins include their upper ends. The first and the last bin
  /// also count values outside the range.
  std::vector<std::uint64_t> histogram;

  /// Adds a case. Requires ascending ids.
  void add(std::uint64_t id, const StatementOutcome& outcome, bool is_broken);
  [[nodiscard]] std::uint64_t ratios() const;  ///< number of cases in the histogram
  /// Returns the q-quantile of the ratios, interpolated in log10 inside a bin. NaN if the histogram is empty.
  [[nodiscard]] double quantile(double q) const;
};

/// The simplest case found that violates a statement.
struct Counterexample : StatementOutcome {
  std::string origin;  ///< "SEED:ID" of the random case, or the name of the attack, that was shrunk
  BoundCase found;
};

struct StatementResult : Tally {
  const Statement* statement;
  std::vector<Tally> by_width = {};  ///< [D − 1]
  std::optional<Counterexample> counterexample = {};

  [[nodiscard]] bool is_violated() const { return counterexample && statement->should_hold(); }
  /// Returns "holds", "violated", "refuted", "not refuted", or "no case" if all bounds were trivial.
  [[nodiscard]] std::string_view verdict() const;
  /// A statement that should hold passes if it has no violation or counterexample; a false claim, if it has a
  /// counterexample. Neither passes if a ratio exceeds Statement::limit at its width.
  [[nodiscard]] bool passed() const;
};

/// A search for the input closest to a bound: ascent of a statement's ratio for one token.
struct Attack {
  std::string_view name;
  std::string_view about;              ///< description of the ratio
  std::string_view statement = {};     ///< id of the statement
  Statement::Factor factor = nullptr;  ///< replaces the statement's factor; omits the loss factor √2 (1 − p_y)
  double limit = 1.0;                  ///< theoretical maximum of the ratio
  SublayerRule rule = {};
  NormKind norm = NormKind::rms;
  bool final_norm = false;
  bool unembedding = false;
  int width = 5;
  double required = 0.99;  ///< share of the limit that must be reached, so that the limit is the best constant
};

struct BoundAttackResult : Attack {
  double reached = 0.0;  ///< the largest ratio of all starts
  BoundCase best = {};   ///< the case that reached it

  [[nodiscard]] double share() const { return reached / limit; }
  [[nodiscard]] bool close_enough() const { return share() >= required; }
  /// Returns whether the required share is reached, and `scale` times the limit is not exceeded beyond rounding.
  [[nodiscard]] bool passed(double scale) const { return close_enough() && reached <= scale * limit * attained_limit; }
};

/// Runs all attacks: ascent of log(ratio) over x, W1, W2 and U from config.starts random cases, and grow_aligned.
std::vector<BoundAttackResult> run_attacks(const VerifyConfig& config, stacks::Progress& progress);

/// Attacks T16 by construction: Peri sublayers whose branches all point along the stream. The ratio is rms over
/// bound, at the depth where it is farthest from 1.
BoundAttackResult grow_aligned(int sublayers, int width, double gain);

/// Gradient of W2 as a function of a factor that multiplies h, for one placement. Statistics are over the stacks.
struct MassiveCurve {
  std::string placement;  ///< pre, peri, post
  bool final_norm = false;
  std::vector<double> gradient = {}, low = {}, high = {};  ///< ‖∂loss/∂W2‖: median, quantiles 0.16, 0.84 [factor]
  std::vector<double> bound = {};                          ///< bound of T14, median [factor]
  double ceiling = std::numeric_limits<double>::quiet_NaN();  ///< median bound that holds for all factors; NaN: none
  double largest_ratio = 0.0;                                 ///< largest ratio of gradient to bound
  double largest_to_ceiling = 0.0;                            ///< largest ratio of gradient to its stack's ceiling
  double lowest_exponent = HUGE_VAL, highest_exponent = -HUGE_VAL;  ///< p in gradient ∝ ‖h‖^p, last decade of factors

  /// Returns whether the gradient grows like ‖h‖ in every stack.
  [[nodiscard]] bool grows() const { return lowest_exponent > 0.99 && highest_exponent < 1.01; }
  /// Returns true if no gradient exceeds its stack's ceiling or grows over the last decade of the factor.
  [[nodiscard]] bool is_bounded() const { return largest_to_ceiling <= attained_limit && highest_exponent < 0.01; }
  /// Returns whether the gradient is within its bound, does not grow if a ceiling exists, and grows like ‖h‖ otherwise.
  [[nodiscard]] bool passed() const {
    return largest_ratio <= attained_limit && (std::isnan(ceiling) ? grows() : is_bounded());
  }
};

inline constexpr int massive_stacks = 32, massive_width = 64, massive_hidden = 256;
std::vector<double> massive_factors();  ///< 1 … 1e6
/// Multiplies W1, and thus h, of random ReLU stacks by each factor. The label is the class with the smallest entry of
/// a, so that 1 − p_y does not vanish. Placements: Pre-LN without and with a final norm, Peri-LN, Post-LN.
std::vector<MassiveCurve> sweep_massive(std::uint64_t seed);

struct VerifyResult {
  VerifyConfig config;
  std::vector<StatementResult> statements;  ///< in the order of verify::statements()
  std::vector<BoundAttackResult> attacks;
  std::vector<MassiveCurve> massive;

  [[nodiscard]] bool passed() const;
};

/// Runs random cases, attacks, the massive-activation sweep and the search for counterexamples (docs/experiments.md).
VerifyResult run(const VerifyConfig& config, stacks::Progress& progress);

/// Checks every statement that applies to the case in config.replay. Throws ConfigError for a missing file, InputError
/// for a file without a valid case.
study::Outcome replay(const VerifyConfig& config);

std::string table(const VerifyResult& result);

/// Returns the path of the file for the case that violates a statement.
std::string case_file(const VerifyConfig& config, const Statement& statement);

const dataset::Schema& schema();
dataset::Dataset dataset_of(const VerifyResult& result);

}  // namespace periscope::verify
