#pragma once

#include "sim/checkpoint/safetensors_type.h"
#include "sim/files/output_file.h"
#include "sim/model/resident_weights.h"

namespace periscope::training {

/// Writes all parameters under the names of `propagate --dump`, gains and biases as vectors, in f64 or f32. `output` is
/// the caller's to commit.
void write_weights(const Backend& ops, const ResidentWeights::Parameters& parameters, SafetensorsType type,
                   OutputFile& output);

}  // namespace periscope::training
