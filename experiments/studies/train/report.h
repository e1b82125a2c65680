#pragma once

#include <string>

#include "experiments/engine/result/schema.h"
#include "experiments/engine/training/train.h"

namespace periscope::train {

/// Schema of the result of `train`, on the dimensions (placement, seed, …).
[[nodiscard]] const dataset::Schema& schema();
[[nodiscard]] dataset::Dataset dataset_of(const training::TrainConfig& config, const training::TrainResult& result);

[[nodiscard]] std::string table(const training::TrainResult& result);

/// Writes a trained stack into `folder`, as config.json and model.safetensors, in the layout of the Hugging Face family
/// that computes the same function: Llama (Pre-LN), Qwen 3 (with QK-norm of heads), Gemma 2 (Peri-LN; its embedding is
/// multiplied by √D, so the table is divided by it), Gemma 3 (with QK-norm of heads), OLMo 2 (B-only with QK-norm of
/// whole projections). Other stacks have the tensor names of `propagate --dump`, and model_type "periscope" and the
/// tables [model], [init], [input] and [train] in config.json. Returns the family, or "periscope". Exceptions of
/// OutputFolder propagate.
std::string export_model(const std::string& folder, const Backend& ops, const training::TrainingResult& trained,
                         bool overwrite);

}  // namespace periscope::train
