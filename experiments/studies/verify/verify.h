#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/progress.h"
#include "experiments/studies/verify/attacks.h"
#include "experiments/studies/verify/statements.h"

namespace periscope::verify {

struct VerifyConfig {
  std::uint64_t seed = 0;
  int cases = 20000;
  double scale = 1.0;       ///< on every bound that should hold
  int starts = 8;           ///< of every attack
  std::string replay = {};  ///< a file with one case, to be checked alone
};

/// The outcomes of one statement, over all cases or over those of one width.
struct Tally {
  static constexpr int lowest = -12, highest = 4;  ///< exponents of ten at the ends of the histogram
  /// Quantiles are accurate to one bin: 0.4 % for all cases, 8 % for those of one width (30 bins per decade).
  explicit Tally(int bins_per_decade = 600)
      : per_decade(bins_per_decade), histogram(static_cast<std::size_t>((highest - lowest) * bins_per_decade)) {}

  std::uint64_t cases = 0;
  std::uint64_t trivial = 0;     ///< the bound was infinite, or zero and met
  std::uint64_t unresolved = 0;  ///< checked, but rounding is too large relative to the bound for a ratio
  std::uint64_t violations = 0;
  double largest = 0.0;  ///< ratio
  std::optional<std::uint64_t> first_violation = {}, largest_case = {};
  int per_decade;
  /// Counts of log10(ratio) in equal bins, upper ends included. The outermost bins hold what lies outside, too.
  std::vector<std::uint64_t> histogram;

  /// Adds a case; cases come in the order of their ids.
  void add(std::uint64_t id, const StatementOutcome& outcome, bool is_broken);
  [[nodiscard]] std::uint64_t ratios() const;  ///< cases in the histogram
  /// The ratio below which a share q of the counts lies, interpolated in log10 inside its bin and never more than the
  /// largest; NaN without counts.
  [[nodiscard]] double quantile(double q) const;
};

/// What the random cases say of a statement.
struct StatementResult : Tally {
  const Statement* statement;
  std::vector<Tally> by_width = {};  ///< [D − 1]

  /// "holds", "violated", "refuted", "not refuted", or "no case" if none met the statement with a bound that says
  /// something.
  [[nodiscard]] std::string_view verdict() const;
};

/// The simplest case found that breaks a statement.
struct Counterexample : StatementOutcome {
  std::string origin;  ///< "SEED:ID" of the random case, or the attack's name, from which it was made simpler
  BoundCase found;
};

/// A statement that is false, and whether this run could show it.
struct Refutation {
  std::string id;
  std::string claim;
  bool refuted = false;
  std::string evidence;                               ///< in words, with the numbers
  std::optional<Counterexample> counterexample = {};  ///< where one case suffices
};

struct VerifyResult {
  VerifyConfig config;
  std::vector<StatementResult> statements;  ///< in the order of verify::statements()
  std::vector<BoundAttackResult> attacks;
  AlignedGrowth growth;
  std::vector<MassiveCurve> massive;
  std::vector<Counterexample> violations;  ///< of statements that should hold: the first of each
  std::vector<Refutation> refutations;
  double seconds = 0.0;        ///< for the random cases
  bool stopped_early = false;  ///< some of it is missing

  [[nodiscard]] bool passed() const;
};

/// The random cases alone: a result for every statement, in their order.
std::vector<StatementResult> random_cases(const VerifyConfig& config, stacks::Progress& progress);

/// Random cases, attacks, the massive-activation sweep and the refutations; see docs/experiments.md.
VerifyResult run(const VerifyConfig& config, stacks::Progress& progress);

/// One case and every statement that applies to it.
struct Replay {
  VerifyConfig config;
  BoundCase found;
  std::vector<StatementOutcome> outcomes;

  /// True if every statement holds that should.
  [[nodiscard]] bool passed() const;
};

/// Reads and checks the case in config.replay. Throws ConfigError if there is no such file, InputError for one that
/// holds no case.
Replay replay(const VerifyConfig& config);

/// For people: statements, attacks, what was refuted and how, violations, and the verdict. `out` is the folder into
/// which the violations' cases are written; "" if none.
std::string table(const VerifyResult& result, const std::string& out = "");

/// The file in the folder `out` that holds a violation's case.
std::string case_file(const std::string& out, const Counterexample& violation);

/// The result; cases in it are JSON texts, as --replay reads them from a file.
const dataset::Schema& schema();
dataset::Dataset dataset_of(const VerifyResult& result);

/// The case of a replay with its numbers, so that it can be checked by hand, and every statement's line for it; for
/// people and as a document.
std::string describe(const Replay& replay);
nlohmann::ordered_json replay_json(const Replay& replay);

}  // namespace periscope::verify
