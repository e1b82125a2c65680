#pragma once

#include <limits>
#include <string_view>
#include <vector>

#include "experiments/core/config/config.h"
#include "experiments/core/stacks/progress.h"

namespace periscope::stacks {

/// Floating-point operations, a multiply-add being two, of one pass over `model`.
double pass_operations(const ModelSpec& model, int tokens, bool backward);

/// The same of a reading of one seed: as many as weights_cost says, where that is more.
double reading_operations(const StackSpec& spec, const config::RunOptions& run);

/// What theory::predict may cost by default: as much as the measurement of `spec` by `seeds` seeds, or 2e12 operations
/// (seconds). No limit where its precision was asked for by theory.tolerance or theory.gradient_tolerance.
double affordable_operations(const StackSpec& spec, const config::Config& config, int seeds);

/// Of theory::predict with that limit.
double limit_operations(const StackSpec& spec, bool backward,
                        double affordable = std::numeric_limits<double>::infinity());

/// Readings of so many seeds of every stack at every width of the list of that name.
Work work_at_widths(const config::Config& config, const std::vector<StackSpec>& stacks, const std::vector<int>& widths,
                    std::string_view list, int seeds);

}  // namespace periscope::stacks
