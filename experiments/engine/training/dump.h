#pragma once

#include <string>

#include "experiments/engine/training/config.h"
#include "experiments/engine/training/task.h"
#include "sim/checkpoint/safetensors_type.h"
#include "sim/files/output_folder.h"

namespace periscope::training {

/// Throws ConfigError if the folder of `flag` is, or is in, the future result file `name`.nc in `out`.
void require_not_in_result(const char* flag, const std::string& folder, const std::string& out,
                           const std::string& name);

/// Throws ConfigError if one of the folders of --dump and --export is, or is in, the other.
void require_not_nested(const std::string& dump, const std::string& models);

/// Throws ConfigError if `config` is of several stacks or seeds, which --dump `folder` cannot hold.
void require_one_run(const TrainConfig& config, const std::string& folder);

/// Writes all parameters under the names of `propagate --dump`, in f64 or f32, gains and biases as vectors. The caller
/// commits `output`.
void write_weights(const Backend& ops, const ResidentWeights::Parameters& parameters, SafetensorsType type,
                   OutputFile& output);

/// Writes the files with which another program can train the same stack: config.json, initial.safetensors and
/// final.safetensors (names as in `propagate --dump`), batches.safetensors (`tokens` [steps, batch, T + 1]),
/// steps.safetensors (`loss`, `grad_norm` [steps]) and windows.safetensors, the held-out windows that records read
/// (`tokens` [record_sequences, T + 1]). Numbers are f64.
class Dump {
 public:
  /// For a configuration of one run. Throws as OutputFolder.
  Dump(const std::string& folder, bool overwrite);
  /// Writes the files of the run.
  void write(const Backend& ops, const TrainingResult& trained, const Corpus& corpus);

 private:
  OutputFolder files_;
};

}  // namespace periscope::training
