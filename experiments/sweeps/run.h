#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/shard.h"
#include "experiments/sweeps/store.h"

namespace periscope::sweeps {

struct RunSettings {
  stacks::Shard shard = {};  ///< of the blocks
  int threads = 0;           ///< 0: the default
  bool retry = false;        ///< compute failed cells again
  bool force = false;        ///< ignore memory estimates
  std::vector<std::string> argv = {};
};

/// Numbers of cells by state.
struct CellCounts {
  std::size_t cells = 0, done = 0, failed = 0;
  std::size_t check_failed = 0, diverged = 0;  ///< cells that are done with this exit code

  [[nodiscard]] std::size_t missing() const { return cells - done - failed; }
  /// Adds a cell; `entry` is null if it is not stored.
  void add(const CellIndex::Entry* entry);
  /// Returns the exit code of complete cells: 1 if one failed, else 4, else 5, else 0.
  [[nodiscard]] ExitCode code() const;
};

struct PlanSummary {
  CellCounts counts;
  std::size_t invalid_cells = 0;
  std::string invalid;  ///< "LABEL: MESSAGE" of the first invalid cell, or ""
  CostEstimate cost;
};

/// Checks a plan and writes it into `folder`, which may already hold cells of another plan. Memory is estimated for
/// `threads` threads (0: the default). Throws ConfigError if all cells with some value are invalid, and the errors of
/// OutputFile.
PlanSummary make_plan(const GridPlan& plan, const std::string& folder, stacks::Progress& progress, int threads = 0);
GridPlan read_plan(const std::string& folder);

/// Computes the missing cells of a shard and stores every block when it is complete. Several processes may run the same
/// shard. A cell that fails is stored with its message, and the others continue. Long cells are resumed from
/// `folder`/cache. Writes `folder`/runs/NAME.json with time, machine and memory. Returns the counts of the shard.
/// Throws Stopped.
CellCounts run_shard(const std::string& folder, const RunSettings& settings, stacks::Progress& progress);

/// State of a sweep.
struct SweepStatus {
  CellCounts counts;
  std::vector<std::string> failures;  ///< "LABEL: MESSAGE" of the first ten failed cells
  std::vector<std::string> damaged;   ///< files that are ignored
  double seconds = 0.0;               ///< computing time of all finished runs, times their threads
  std::size_t computed = 0;           ///< cells that these runs computed
};
SweepStatus status_of(const std::string& folder, stacks::Progress& progress);

// Return JSON objects; that of an incomplete status has the estimated remaining `core_hours` if some run has
// finished.
Json counts_json(const CellCounts& counts);
Json summary_json(const PlanSummary& summary);
Json status_json(const SweepStatus& status);

}  // namespace periscope::sweeps
