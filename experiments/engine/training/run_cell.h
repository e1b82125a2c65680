#pragma once

#include <functional>

#include "experiments/engine/training/cell.h"
#include "experiments/engine/training/state_file.h"

namespace periscope::training {

/// Whom a run tells what it does, and asks. Any may be empty.
struct CellCallbacks {
  std::function<bool()> stop_requested;    ///< whether to stop early
  std::function<void()> on_step;           ///< a step was done
  std::function<void(int steps)> on_kept;  ///< so many steps were read from the state file
  std::function<void()> on_state;          ///< there is a state from which the run can go on
  /// The step was recorded; false: the run ends here.
  std::function<bool(int step, const CellHistory&)> on_record = {};
  /// Adds to every record what else is to be known of the weights.
  std::function<void(const ResidentWeights&, RecordedValues&)> at_record = {};
  /// Adds to the last record of a run that came to its end what is to be known of the trained weights.
  std::function<void(const ResidentWeights&, RecordedValues&)> at_end = {};
  bool forgets_weights = false;  ///< the state of a run that is over, and its result, have no parameters
};

/// Trains one stack from its random weights, or from where its state file says that it was, to the end; a loss or
/// gradient that is not finite ends it, and so does on_record. The state is written every ten seconds, or less often
/// where that would take more than 2 % of the time, and at the end. Every number depends on the cell alone. Throws
/// Stopped, the state being written, when it is asked to stop.
[[nodiscard]] TrainedCell run_cell(const Backend& ops, const TrainCell& cell, const Corpus& corpus,
                                   const StateFile* state, const CellCallbacks& callbacks);

}  // namespace periscope::training
