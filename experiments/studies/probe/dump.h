#pragma once

#include "sim/checkpoint/checkpoint.h"
#include "sim/files/output_file.h"
#include "sim/measure/model_reading.h"

namespace periscope::probe {

/// Runs the pass and writes what an outside program needs to check every number of it to `file`, a safetensors file in
/// f64: input [T, D] (before the embedding norm), tokens and labels [T], stream.0 … stream.2L [T, D], logits, loss [1]
/// if a token has a label and, with backward, grad.stream.… and grad.weight.<tensor of the checkpoint>, in the shape in
/// which it is stored. `file` is the caller's to commit.
[[nodiscard]] ModelReading dump_model(const StackContext& context, const Checkpoint& checkpoint, ModelPass pass,
                                      OutputFile& file);

}  // namespace periscope::probe
