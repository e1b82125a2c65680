#pragma once

#include <string>

#include "experiments/engine/result/table.h"
#include "experiments/studies/propagate/propagate.h"

/// The parts of the result's columns.
namespace periscope::propagate {

inline const std::string on_stack = "input placement";

/// One stack of a run.
struct Stack {
  const stacks::StackResult& result;
  const config::RunOptions& run;
  const judge::SeedCurves* seeds;  ///< seed by seed; null where nothing was measured

  [[nodiscard]] const Profile* measured() const { return result.measurement ? &result.measurement->profile : nullptr; }
  [[nodiscard]] const Profile& predicted() const { return result.prediction.profile; }
};

/// Returns the columns with, for every compared number, the smallest error of the prediction that the test would have
/// rejected (T22).
dataset::Table<Stack> power_table();
/// The verdict and what it rests on: worst cell, statistics, contrasts.
dataset::Table<Stack> verdict_table();

}  // namespace periscope::propagate
