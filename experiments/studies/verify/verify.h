#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/studies/verify/adversary.h"
#include "experiments/studies/verify/aligned_growth.h"
#include "experiments/studies/verify/massive.h"
#include "experiments/studies/verify/tally.h"
#include "sim/base/key.h"

namespace periscope::verify {

struct VerifyConfig {
  std::uint64_t seed = 0;
  std::uint64_t cases = 20000;
  double scale = 1.0;  ///< on every bound that should hold
  int starts = 8;      ///< of every attack
};

extern const Section<VerifyConfig> section;

/// The simplest case found that breaks a statement.
struct Counterexample {
  std::size_t statement = 0;
  std::string origin;  ///< "SEED:ID" of the random case, or the attack's name, from which it was made simpler
  BoundCase found;

  /// The statement's numbers for it.
  [[nodiscard]] StatementOutcome outcome() const;
};

/// A statement that is false, and whether this run could show it.
struct Refutation {
  std::string id;
  std::string claim;
  bool refuted = false;
  std::string evidence;                          ///< in words, with the numbers
  std::optional<Counterexample> counterexample;  ///< where one case suffices
};

struct VerifyResult {
  VerifyConfig config;
  std::vector<Tally> tallies;                ///< [statement]
  std::vector<std::vector<Tally>> by_width;  ///< [statement][D − 1]
  std::vector<BoundAttackResult> attacks;
  AlignedGrowth growth;
  MassiveSweep massive;
  std::vector<Counterexample> violations;  ///< of statements that should hold: the first of each
  std::vector<Refutation> refutations;
  double seconds = 0.0;        ///< for the random cases
  bool stopped_early = false;  ///< some of it is missing

  [[nodiscard]] bool passed() const;
};

/// Random cases, attacks, the massive-activation sweep and the refutations; see docs/experiments.md.
VerifyResult run(const VerifyConfig& config, stacks::Progress& progress);

/// One case against every statement that applies.
struct Replay {
  std::string file;
  BoundCase found;
  double scale = 1.0;                      ///< on every bound that should hold
  std::vector<std::size_t> checked;        ///< statements
  std::vector<StatementOutcome> outcomes;  ///< [checked]

  /// True if checked statement k does not hold.
  [[nodiscard]] bool is_broken(std::size_t k) const;
  /// True if no statement is broken that should hold.
  [[nodiscard]] bool passed() const;
};

/// Throws ConfigError if there is no such file, InputError for one that holds no case.
Replay replay(const std::string& file, double scale);

}  // namespace periscope::verify
