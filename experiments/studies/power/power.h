#pragma once

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/ladder.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/resolved.h"

namespace periscope::power {

/// A configuration that theories are compared with.
struct PowerConfig {
  std::string name;
  std::string file;                   ///< of the configuration, as a path that can be opened
  std::vector<std::string> settings;  ///< a.b=v on top of it
  bool ladder = false;                ///< compared along a ladder of widths (T23) instead of at its own width
  bool master_seeds = false;          ///< small enough for `power --master-seeds`
  stacks::LadderConfig config = {};   ///< loaded
};

/// A theory that is wrong on purpose, and where that has to be noticed.
struct WrongTheory {
  std::string name;
  std::vector<std::string> settings;     ///< what is overridden for theory, as after --theory-set
  std::string config;                    ///< name of a PowerConfig
  std::vector<std::string> placements;   ///< of the stacks that it replaces the right theory of; empty: all
  std::vector<std::string> inputs;       ///< the same of inputs
  stacks::LadderConfig overridden = {};  ///< the configuration with this theory
};

/// The list that `periscope power` runs through.
struct PowerList {
  std::string file;
  std::vector<PowerConfig> configs;
  std::vector<WrongTheory> theories;
};

/// A stack of a configuration, compared with one theory.
struct ComparedStack {
  std::string placement = {};
  std::string input = {};
  judge::Verdict verdict = judge::Verdict::not_checked;
  std::string reason = {};
  std::string nearest = {};  ///< the test nearest to rejection; "" without tests
  double excess = 0.0;       ///< of that test
  double critical = 0.0;     ///< excess at which it is rejected

  /// Above 1 a stack is rejected, by this factor.
  [[nodiscard]] double margin() const { return critical > 0.0 ? excess / critical : 0.0; }
};
/// Members, for the cache.
inline auto parts(ComparedStack& s) {
  return std::tie(s.placement, s.input, s.verdict, s.reason, s.nearest, s.excess, s.critical);
}

/// A theory, compared with a configuration. It is rejected if any stack rejects it.
struct PowerRow {
  std::string theory = "true";
  bool is_true = true;
  std::vector<std::string> overridden = {};  ///< settings of the theory
  std::string config;
  std::vector<ComparedStack> stacks = {};

  [[nodiscard]] bool rejected() const { return std::ranges::any_of(stacks, judge::disagrees); }
  /// A right theory that is not rejected, or a wrong one that is.
  [[nodiscard]] bool as_it_should_be() const { return rejected() != is_true; }
  /// The stack with the largest margin, of those that reject if any does.
  [[nodiscard]] const ComparedStack& clearest() const;
};

struct PowerResult {
  PowerList list;
  double familywise_error = 0.0;  ///< of the first configuration
  std::vector<PowerRow> rows;
  bool stopped_early = false;  ///< rows are those that were finished
};

/// Loads a configuration of the list, changed by the common flags, with what --theory-set overrides, `overridden`.
/// Throws ConfigError.
using LoadListed = std::function<stacks::LadderConfig(const PowerConfig&, const std::vector<std::string>& overridden)>;

/// Reads a list (TOML: [[config]] and [[theory]]) without its configurations, whose files are relative to it. Throws
/// ConfigError.
PowerList read_power_list(const std::string& file);
/// Reads the list in `file` and its configurations, before hours may be spent on the first. Throws ConfigError.
PowerList load_power(const std::string& file, const LoadListed& load);

/// Returns the settings behind the rows: the first configuration as it is printed; the hash covers all of them, and
/// all overrides.
config::Resolved resolved(const PowerList& list);

/// Returns a judged stack with its test nearest to rejection.
ComparedStack compared(const StackSpec& spec, const judge::StackVerdict& judged);

/// Measures every configuration once and compares it with the right theory and with every wrong one. A wrong theory
/// replaces the right one in the verdicts of the whole run, one stack at a time, so that its stack is judged at the
/// same familywise error as in a run of its own.
PowerResult run(const PowerList& list, stacks::Progress& progress);

bool all_as_they_should_be(const PowerResult& result);

/// The result of `power`, on the dimensions (row, stack) and, of the configurations that the list names, `listed`.
const dataset::Schema& schema();
dataset::Dataset dataset_of(const PowerResult& result);

/// Returns the result in short, for people.
std::string table(const PowerResult& result);

/// The number of times that one configuration rejected the right theory.
struct FalseAlarms {
  std::string config;
  int runs = 0;
  int rejected = 0;
  int inconclusive = 0;
  int allowed = 0;  ///< more would have a chance below 1 % if the familywise error were what it claims to be
};

struct FalseAlarmResult {
  std::vector<FalseAlarms> configs;
  nlohmann::ordered_json records;  ///< one per run, in the order of configurations and master seeds
  bool stopped_early = false;      ///< runs are those that were finished
};

/// Runs every configuration of the list that is marked for it with `master_seeds` master seeds and the right theory.
/// Master seed m shifts run.seed by (m + 1)·2^20, so that all random numbers are fresh, those of the prediction too.
/// Cached runs are not repeated. Nothing removes them from the cache.
FalseAlarmResult count_false_alarms(const PowerList& list, int master_seeds, stacks::Progress& progress);

/// The right theory was rejected more often than it may be.
bool too_many(const FalseAlarmResult& result);
std::string false_alarm_table(const FalseAlarmResult& result);
nlohmann::ordered_json false_alarm_json(const FalseAlarmResult& result);

}  // namespace periscope::power
