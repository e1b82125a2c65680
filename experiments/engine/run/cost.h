#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "experiments/engine/settings/config.h"
#include "sim/model/matrix_free.h"

namespace periscope::stacks {

/// Returns true if a run uses matrix-free weights (T21). With run.weights = "auto" this holds if they cost at most half
/// as much as dense weights, and dense weights cost more than 2e9 operations per seed.
[[nodiscard]] bool draws_matrix_free(const StackSpec& spec, const config::RunOptions& run);
[[nodiscard]] std::string_view weights_used(const StackSpec& spec, const config::RunOptions& run);

/// Returns the random weights of one seed. `store_factors` applies to matrix-free weights.
[[nodiscard]] std::unique_ptr<WeightSource> random_weights(const Backend& backend, const StackSpec& spec,
                                                           const config::RunOptions& run, std::uint64_t seed,
                                                           StoreFactors store_factors = StoreFactors::no);

/// Returns the floating-point operations of one pass over `model`; a multiply-add counts as two.
double pass_operations(const ModelSpec& model, int tokens, bool backward);

/// Returns true if a pass takes about 20 ms or less on one thread. Such passes run in parallel, each on one thread.
bool is_small_pass(const ModelSpec& model, int tokens, bool backward);

/// Returns the cost of measuring one seed in floating-point operations: with dense weights the maximum of the pass and
/// of sampling and multiplying the weights; with matrix-free weights the cost of the weights.
double reading_operations(const StackSpec& spec, const config::RunOptions& run);

/// Returns the default budget of theory::predict in operations: the cost of measuring `seeds` seeds, at least 2e12.
double affordable_operations(const StackSpec& spec, const config::Config& config, int seeds);

}  // namespace periscope::stacks
