#pragma once

#include <string>

#include "experiments/core/training/cell.h"
#include "experiments/core/training/config.h"
#include "sim/files/output_folder.h"

namespace periscope::train {

/// Throws ConfigError if `config` is of several stacks or seeds, which --dump `folder` cannot hold.
void require_one_run(const training::TrainConfig& config, const std::string& folder);

/// Writes the files that an outside program needs to train the same stack: config.json, initial.safetensors and
/// final.safetensors (names as in `propagate --dump`), batches.safetensors (`tokens` [steps, batch, T + 1]) and
/// steps.safetensors (`loss`, `grad_norm` [steps]), all numbers in f64.
class Dump {
 public:
  /// For a configuration of one run. Throws as OutputFolder.
  Dump(const std::string& folder, bool overwrite);
  /// Writes the files of the run.
  void write(const Backend& ops, const training::TrainedCell& trained, const Corpus& corpus);

 private:
  OutputFolder files_;
};

}  // namespace periscope::train
