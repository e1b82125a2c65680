#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/ladder.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/study/request.h"

namespace periscope::power {

/// A configuration whose measurements are compared with theories.
struct PowerConfig {
  std::string name;
  std::string file;                   ///< path of the configuration file
  std::vector<std::string> settings;  ///< overrides of the configuration, as KEY=VALUE
  bool ladder = false;                ///< compared along a ladder of widths (T23) instead of at one width
  bool master_seeds = false;          ///< small enough for `power --master-seeds`
  stacks::LadderConfig config = {};
};

/// A deliberately wrong theory, and the stacks for which it replaces the correct one.
struct WrongTheory {
  std::string name;
  std::vector<std::string> settings;     ///< overrides of the theory, as for --theory-set
  std::string config;                    ///< name of a PowerConfig
  std::vector<std::string> placements;   ///< placements of the stacks; empty: all
  std::vector<std::string> inputs;       ///< input kinds of the stacks; empty: all
  stacks::LadderConfig overridden = {};  ///< the configuration with this theory

  [[nodiscard]] bool applies_to(const StackSpec& spec) const;  ///< by `placements` and `inputs`
};

struct PowerList {
  std::string file;
  std::vector<PowerConfig> configs;
  std::vector<WrongTheory> theories;
};

/// A stack, compared with one theory.
struct ComparedStack {
  std::string placement = {};
  std::string input = {};
  judge::Verdict verdict = judge::Verdict::not_checked;
  std::string reason = {};
  std::string nearest = {};  ///< the test nearest to rejection; "" without tests
  double excess = 0.0;       ///< excess of `nearest`
  double critical = 0.0;     ///< excess above which `nearest` is rejected

  /// Returns the ratio of excess to critical excess. Above 1, the theory is rejected.
  [[nodiscard]] double margin() const { return critical > 0.0 ? excess / critical : 0.0; }
};
/// Returns the members, for the cache.
inline auto parts(ComparedStack& s) {
  return std::tie(s.placement, s.input, s.verdict, s.reason, s.nearest, s.excess, s.critical);
}

/// A theory compared with a configuration. It is rejected if any stack rejects it.
struct PowerRow {
  std::string theory = "true";
  bool is_true = true;
  std::vector<std::string> overridden = {};  ///< overrides of the theory
  std::string config;
  std::vector<ComparedStack> stacks = {};

  [[nodiscard]] bool rejected() const { return std::ranges::any_of(stacks, judge::disagrees); }
  /// Returns true if a wrong theory is rejected, or the correct theory is not.
  [[nodiscard]] bool is_expected() const { return rejected() != is_true; }
  /// Returns the stack with the largest margin, among the stacks that reject the theory if there are any.
  [[nodiscard]] const ComparedStack& clearest() const;
};

struct PowerResult {
  PowerList list;
  std::vector<PowerRow> rows;

  [[nodiscard]] bool all_expected() const { return std::ranges::all_of(rows, &PowerRow::is_expected); }
};

/// Reads the list in request.file (TOML: [[config]] and [[theory]]) and its configurations, and applies the settings of
/// the request. Files are relative to the list. Throws ConfigError.
PowerList load_power(const study::Request& request);

/// Returns the settings of the first configuration; the hash covers all configurations and all overrides.
config::Resolved resolved(const PowerList& list);

/// Returns a judged stack with its test nearest to rejection.
ComparedStack compared(const StackSpec& spec, const judge::StackVerdict& judged);

/// Measures every configuration once and compares it with the correct theory and with every wrong one. A wrong theory
/// replaces the correct one for one stack at a time. This stack is judged at the familywise error of a whole run.
PowerResult run(const PowerList& list, stacks::Progress& progress);

/// Dimensions: (row, stack), and `listed`, the configurations of the list.
const dataset::Schema& schema();
dataset::Dataset dataset_of(const PowerResult& result);

std::string table(const PowerResult& result);

/// Runs every configuration with `master_seeds = true` under the correct theory, with `master_seeds` master seeds.
/// Master seed m shifts run.seed by (m + 1)·2^20, so that all random numbers are new, including the prediction's. Runs
/// are cached. Fills `document` with the finished runs, even if this throws Stopped. Under `master_seeds`: how often
/// each configuration rejected the correct theory (more than `allowed` has a probability below 1 % at the stated
/// familywise error). Under `runs`: an object per run. Throws ConfigError if no configuration is marked.
void count_false_alarms(const PowerList& list, int master_seeds, stacks::Progress& progress,
                        nlohmann::ordered_json& document);

/// Returns whether the correct theory was rejected more often than allowed.
bool too_many(const nlohmann::ordered_json& document);
std::string false_alarm_table(const nlohmann::ordered_json& document);

}  // namespace periscope::power
