#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/study/study.h"
#include "experiments/studies/verify/attacks.h"
#include "experiments/studies/verify/statements.h"

namespace periscope::verify {

struct VerifyConfig {
  std::uint64_t seed = 0;
  int cases = 20000;
  double scale = 1.0;       ///< on every bound that should hold
  int starts = 8;           ///< of every attack
  std::string replay = {};  ///< a file with one case, to be checked alone
  std::string out = {};     ///< folder into which the cases of violations are written; "": none
};

/// The outcomes of a statement, over all cases or those of one width. Quantiles are accurate to one bin.
struct Tally {
  static constexpr int lowest = -12, highest = 4;  ///< exponents of ten at the ends of the histogram
  explicit Tally(int bins_per_decade = 600)
      : per_decade(bins_per_decade), histogram(static_cast<std::size_t>((highest - lowest) * per_decade)) {}

  std::uint64_t cases = 0;
  std::uint64_t trivial = 0;  ///< the bound was infinite, or zero and met
  std::uint64_t violations = 0;
  double largest = 0.0;  ///< ratio
  std::optional<std::uint64_t> first_violation = {}, largest_case = {};
  int per_decade;
  /// Counts of log10(ratio) where rounding is small enough for a ratio, upper ends included; the first and last bin
  /// also count values outside.
  std::vector<std::uint64_t> histogram;

  /// Adds a case. Requires ascending ids.
  void add(std::uint64_t id, const StatementOutcome& outcome, bool is_broken);
  [[nodiscard]] std::uint64_t ratios() const;  ///< cases in the histogram
  /// Interpolates in log10 inside a bin, up to the largest ratio; NaN without counts.
  [[nodiscard]] double quantile(double q) const;
};

/// The simplest case found that breaks a statement.
struct Counterexample : StatementOutcome {
  std::string origin;  ///< "SEED:ID" of the random case, or the name of the attack, that was made simpler
  BoundCase found;
};

struct StatementResult : Tally {
  const Statement* statement;
  std::vector<Tally> by_width = {};  ///< [D − 1]
  std::optional<Counterexample> counterexample = {};

  [[nodiscard]] bool is_violated() const { return counterexample && statement->should_hold(); }
  /// "holds", "violated", "refuted", "not refuted", or "no case" if all bounds were trivial.
  [[nodiscard]] std::string_view verdict() const;
  /// A statement that should hold passes without violation and counterexample, a false claim with a counterexample;
  /// both only if no ratio exceeds Statement::limit at its width.
  [[nodiscard]] bool passed() const;
};

struct VerifyResult {
  VerifyConfig config;
  std::vector<StatementResult> statements;  ///< in the order of verify::statements()
  std::vector<BoundAttackResult> attacks;
  std::vector<MassiveCurve> massive;

  [[nodiscard]] bool passed() const;
};

/// Random cases, attacks, the massive-activation sweep and counterexamples; see docs/experiments.md.
VerifyResult run(const VerifyConfig& config, stacks::Progress& progress);

/// Checks every statement that applies to the case in config.replay. Throws ConfigError for a missing file, InputError
/// for one without a valid case.
study::Outcome replay(const VerifyConfig& config);

std::string table(const VerifyResult& result);

/// The file for the case that violates a statement.
std::string case_file(const VerifyConfig& config, const Statement& statement);

const dataset::Schema& schema();
dataset::Dataset dataset_of(const VerifyResult& result);

}  // namespace periscope::verify
