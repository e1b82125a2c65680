#pragma once

#include <memory>
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
  nlohmann::ordered_json records;              ///< one per run, in the order of configurations and master seeds
  std::string journal;                         ///< its path; "" without one
  std::shared_ptr<const void> resumable = {};  ///< once a run is in the journal
  bool stopped_early = false;                  ///< runs are those that were finished
};

/// Runs every configuration of the list that is marked for it with `master_seeds` master seeds and the right theory.
/// Master seed m shifts run.seed by (m + 1)·2^20, so that all random numbers are fresh, those of the prediction too.
/// Every finished run is appended to the journal in run.out (without it there is none); runs that are there already are
/// not repeated.
FalseAlarmResult count_false_alarms(const PowerRun& run, int master_seeds, stacks::Progress& progress);

/// The right theory was rejected more often than it may be.
bool too_many(const FalseAlarmResult& result);
std::string false_alarm_table(const FalseAlarmResult& result);
nlohmann::ordered_json false_alarm_json(const FalseAlarmResult& result);

}  // namespace periscope::power
