#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "experiments/studies/power/power.h"

namespace periscope::power {

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
FalseAlarmResult count_false_alarms(const PowerRun& run, int master_seeds, stacks::Progress& progress);

/// The right theory was rejected more often than it may be.
bool too_many(const FalseAlarmResult& result);
std::string false_alarm_table(const FalseAlarmResult& result);
nlohmann::ordered_json false_alarm_json(const FalseAlarmResult& result);

}  // namespace periscope::power
