#pragma once

#include <string>
#include <vector>

#include "experiments/engine/result/dataset.h"
#include "experiments/sweeps/run.h"

namespace periscope::sweeps {

struct GatherSettings {
  bool partial = false;                   ///< also gather an incomplete sweep
  std::vector<std::string> columns = {};  ///< columns to gather; empty: all
};

struct Gathered {
  std::optional<dataset::Dataset> data;  ///< nullopt if the sweep is incomplete and `partial` is not set
  CellCounts counts;
  std::vector<std::string> damaged;  ///< files that are ignored
};

/// Joins all cells of a sweep into one dataset. It depends only on the plan and the cells, and takes time and memory
/// linear in their number.
///
/// Every axis is a dimension named after its first key, with a typed coordinate; its other keys are further
/// coordinates. The values of model.placement and input.kind use the dimensions `placement` and `input` of the result.
/// A column has the dimensions of the axes, then its own. A dimension whose length differs between cells gets the union
/// of its coordinates. If only the coordinate differs, it becomes a column cell_NAME. Missing entries are missing
/// values. Additional columns: cell_status (done, failed or missing), cell_exit_code, cell_message. The attributes that
/// all cells share, the plan (`sweep`) and `complete` are attributes.
///
/// Throws ConfigError for an unknown column, InputError for inconsistent cells.
Gathered gather(const std::string& folder, const GatherSettings& settings, stacks::Progress& progress);

}  // namespace periscope::sweeps
