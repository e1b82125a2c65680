#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/result/schema.h"
#include "experiments/engine/run/ladder.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/studies/power/power_list.h"

namespace periscope::power {

/// One stack of a configuration against one theory.
struct Confrontation {
  std::string placement;
  std::string input;
  judge::Verdict verdict = judge::Verdict::not_checked;
  std::string reason;
  std::string by;         ///< the test nearest to rejection
  double excess = 0.0;    ///< its excess
  double critical = 0.0;  ///< and the excess at which it is rejected

  /// Above 1 a stack is rejected, by this factor.
  [[nodiscard]] double margin() const { return critical > 0.0 ? excess / critical : 0.0; }
};

/// A theory against a configuration. The right theory is rejected if any stack rejects it, and so is a wrong one that
/// is that of all stacks or of some.
struct PowerRow {
  std::string theory;
  bool is_true = false;
  std::vector<std::string> settings;  ///< what was overridden for theory
  std::string config;
  std::vector<Confrontation> stacks;

  [[nodiscard]] bool rejected() const;
  /// A right theory that is not rejected, or a wrong one that is.
  [[nodiscard]] bool as_it_should_be() const { return rejected() != is_true; }
  /// The stack with the largest margin.
  [[nodiscard]] const Confrontation& clearest() const;
};

/// A list with all that it names, read and checked before hours may be spent on the first of it.
struct PowerRun {
  PowerList list;
  std::vector<stacks::LadderConfig> configs;     ///< [list.configs]
  std::vector<stacks::LadderConfig> overridden;  ///< [list.theories]: the configuration with its wrong theory
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

/// Reads the list in `file` and its configurations. Throws ConfigError.
PowerRun load_power(const std::string& file, const LoadListed& load);

/// Returns what the rows come from: the first configuration as it is printed; the hash covers all of them, and what is
/// told.
config::Resolved resolved(const PowerRun& run);

/// The stack of a judgement as a confrontation.
Confrontation confrontation_of(const StackSpec& spec, const judge::StackVerdict& judged);

/// Measures every configuration once and confronts it with the right theory and with every wrong one. A wrong theory
/// takes the right one's place in the judgement of the whole run, one stack at a time, so that its stack is held to the
/// same familywise error as in a run of its own. Says of every configuration how long its predictions, or
/// ladders, took.
PowerResult run(const PowerRun& run, stacks::Progress& progress);

bool all_as_they_should_be(const PowerResult& result);

/// The result of `power`, on the dimensions (row, stack) and, of the configurations that the list names, `listed`.
const dataset::Schema& schema();
dataset::Dataset dataset_of(const PowerResult& result);

/// Returns the result in short, for people.
std::string table(const PowerResult& result);

}  // namespace periscope::power
