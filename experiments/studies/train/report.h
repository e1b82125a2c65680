#pragma once

#include <string>

#include "experiments/engine/result/schema.h"
#include "experiments/engine/training/train.h"

namespace periscope::train {

/// The result of `train`, on the dimensions (placement, seed, …).
[[nodiscard]] const dataset::Schema& schema();
[[nodiscard]] dataset::Dataset dataset_of(const training::TrainConfig& config, const training::TrainResult& result);

/// Returns a short table of the result, for people.
[[nodiscard]] std::string table(const training::TrainResult& result);

}  // namespace periscope::train
