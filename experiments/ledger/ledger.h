#pragma once

#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/ledger/claims.h"
#include "experiments/ledger/entries.h"
#include "experiments/sweeps/run.h"

namespace periscope::ledger {

/// Profile, claims and shard to run or show. FOLDER/NAME holds the sweep of the run NAME.
struct Selection {
  std::string folder;
  bool quick = false;              ///< the quick profile
  std::vector<std::string> ids;    ///< claims; empty: all
  StoredResults stored{};          ///< used for cells missing from the folder
  sweeps::RunSettings settings{};  ///< of the shard to run
};

/// Throws ConfigError for an unknown claim, naming the nearest one.
void require_known(const Claims& claims, const std::vector<std::string>& ids);

[[nodiscard]] bool is_selected(const Selection& selection, const ClaimRow& claim);

/// Runs the missing cells of all runs that the selected claims need, as sweeps. Throws Stopped, and ConfigError for a
/// selected claim that is not in the profile.
sweeps::CellCounts run(const Claims& claims, const Selection& selection, stacks::Progress& progress);

/// Judges all claims from the cells in the folder. A claim whose cell is missing was not run. Holm's
/// correction covers all claims with a p-value.
std::vector<Entry> judge(const Claims& claims, const Selection& selection, stacks::Progress& progress);

/// Returns the ledger as JSON: every claim with its verdicts, the runs, and the program.
nlohmann::ordered_json json_of(const Claims& claims, const Selection& selection, const std::vector<Entry>& entries);

}  // namespace periscope::ledger
