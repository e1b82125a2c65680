#pragma once

#include <string>

#include "experiments/engine/result/schema.h"
#include "experiments/studies/first_steps/first_steps.h"

namespace periscope::first_steps {

/// The result of `first-steps`, on the dimensions (placement, step, …).
[[nodiscard]] const dataset::Schema& schema();
[[nodiscard]] dataset::Dataset dataset_of(const FirstStepsConfig& config, const FirstStepsResult& result);

/// A table of the result, for people.
[[nodiscard]] std::string table(const FirstStepsConfig& config, const FirstStepsResult& result);

}  // namespace periscope::first_steps
