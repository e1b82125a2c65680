#pragma once

#include <string>

#include "experiments/engine/training/config.h"
#include "experiments/engine/training/task.h"
#include "sim/checkpoint/safetensors_type.h"
#include "sim/files/output_folder.h"

namespace periscope::training {

/// Throws ConfigError if the folder of `flag` has the path of the result file, `out`/`name`.nc, or is below it.
void require_not_in_result(const char* flag, const std::string& folder, const std::string& out,
                           const std::string& name);

/// Throws ConfigError if the folders of --dump and --export are equal or one contains the other.
void require_not_nested(const std::string& dump, const std::string& models);

/// Throws ConfigError if `config` has several stacks or seeds, as --dump `folder` stores a single run.
void require_one_run(const TrainConfig& config, const std::string& folder);

/// Writes all parameters in f64 or f32, named as in `propagate --dump`, gains and biases as vectors. Does not commit.
void write_weights(const Backend& ops, const ResidentWeights::Parameters& parameters, SafetensorsType type,
                   OutputFile& output);

/// Writes the files that another program needs to reproduce a training run: config.json, initial.safetensors and
/// final.safetensors (names as in `propagate --dump`), batches.safetensors (`tokens` [steps, batch, T + 1]),
/// steps.safetensors (`loss`, `grad_norm` [steps]) and windows.safetensors, the held-out windows used for records
/// (`tokens` [record_sequences, T + 1]). Floats are f64.
class Dump {
 public:
  /// Throws as OutputFolder does.
  Dump(const std::string& folder, bool overwrite);
  void write(const Backend& ops, const TrainingResult& trained, const Corpus& corpus);

 private:
  OutputFolder files_;
};

}  // namespace periscope::training
