#pragma once

#include "experiments/engine/settings/config.h"

namespace periscope::stacks {

/// Floating-point operations, a multiply-add being two, of one pass over `model`.
double pass_operations(const ModelSpec& model, int tokens, bool backward);

/// Returns true if a pass takes about 20 ms or less on one thread. Its ops then stay on one thread (OneThread), and
/// several such passes run in parallel.
bool is_small_pass(const ModelSpec& model, int tokens, bool backward);

/// Returns the floating-point operations of a reading of one seed: those of pass_operations, or those of weights_cost
/// if these are more; with matrix-free weights those of weights_cost.
double reading_operations(const StackSpec& spec, const config::RunOptions& run);

/// Returns the largest number of operations that theory::predict may use by default: as many as the measurement of
/// `spec` by `seeds` seeds, or 2e12 (seconds) if that is more.
double affordable_operations(const StackSpec& spec, const config::Config& config, int seeds);

}  // namespace periscope::stacks
