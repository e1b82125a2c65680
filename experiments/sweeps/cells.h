#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/sweeps/plan.h"

namespace periscope::sweeps {

/// SHA-256 of all influences on a cell's result: ResolvedCell::settings and cache::numerics().
using CellId = std::array<std::uint64_t, 4>;

/// A cell that is ready to run, or the reason why its configuration is invalid.
struct ResolvedCell {
  CellId id{};
  /// SHA-256 of study, flags, schema version and settings that can change a result (the content of texts, not their
  /// paths), hexadecimal.
  std::string settings;
  std::optional<study::Job> job;
  std::string failure;
};

/// Resolves a cell. An invalid configuration is stored in `failure`.
ResolvedCell resolve(const GridPlan& plan, std::size_t cell, int threads = 0);

struct CellIds {
  std::vector<CellId> ids;
  std::vector<std::uint64_t> invalid;  ///< cells whose configuration is invalid
};

/// Returns the ids of all cells on all threads; a cell takes about 0.3 ms. The ids of more than 2000 cells are cached
/// in the file `folder`/ids. Throws Stopped.
CellIds ids_of_cells(const GridPlan& plan, const std::string& folder, stacks::Progress& progress);

/// Rough cost of a plan, from at most 64 evenly spaced cells.
struct CostEstimate {
  double memory = 0.0;   ///< largest memory estimate of a cell [bytes]
  double seconds = 0.0;  ///< of all cells on one core, for measuring random stacks and training; a factor of about 5
};
CostEstimate estimate(const GridPlan& plan, int threads = 0);

/// Throws ConfigError with the reason if all cells with some value of a swept key are invalid.
void require_valid_values(const GridPlan& plan, const std::vector<std::uint64_t>& invalid);

}  // namespace periscope::sweeps
