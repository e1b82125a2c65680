#pragma once

#include <string>

#include "experiments/engine/training/cell.h"
#include "experiments/engine/training/config.h"
#include "sim/files/output_folder.h"

namespace periscope::training {

/// Throws ConfigError if `config` is of several stacks or seeds, which --dump `folder` cannot hold.
void require_one_run(const TrainConfig& config, const std::string& folder);

/// Writes the files that an outside program needs to train the same stack: config.json, initial.safetensors and
/// final.safetensors (names as in `propagate --dump`), batches.safetensors (`tokens` [steps, batch, T + 1]) and
/// steps.safetensors (`loss`, `grad_norm` [steps]), all numbers in f64; `with_windows` also windows.safetensors, the
/// held-out windows that records read (`tokens` [record_sequences, T + 1]).
class Dump {
 public:
  /// For a configuration of one run. Throws as OutputFolder.
  Dump(const std::string& folder, bool overwrite, bool with_windows = false);
  /// Writes the files of the run.
  void write(const Backend& ops, const TrainedCell& trained, const Corpus& corpus);

 private:
  bool with_windows_;
  OutputFolder files_;
};

}  // namespace periscope::training
