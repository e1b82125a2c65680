#pragma once

#include <vector>

#include "experiments/engine/result/table.h"
#include "experiments/studies/reproduce/claims.h"

/// The parts of the dataset of `reproduce`.
namespace periscope::reproduce {

/// A run, and the steps of which there are records.
struct Run {
  const training::TrainedCell& cell;
  const std::vector<int>& steps;
  [[nodiscard]] const training::CellHistory& history() const { return cell.history; }
};
[[nodiscard]] dataset::Table<Run> run_table();

}  // namespace periscope::reproduce
