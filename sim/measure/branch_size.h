#pragma once

#include <vector>

#include "sim/model/context.h"

namespace periscope {

/// β₀ of every sublayer from norm B's parameters alone, the mean square of the branch that it lets into the stream:
/// β²·(mean(γ_k²) + mean(bias_k²)); NaN for a sublayer without norm B.
/// B_out_k = γ_k n_k + bias_k, where mean(n_k²) over the features is 1 but for ε. So the true mean square is
/// β²·mean(γ_k² n_k² + 2γ_k n_k bias_k + bias_k²), and this value is exact if the normalised branch has equal
/// power on every feature (mean over tokens of n_k² = 1) and, with a bias, no mean (of n_k over tokens). Otherwise the
/// difference says how much the branch leans to features with large gains.
[[nodiscard]] std::vector<double> branch_size_from_gains(const StackContext& context);

}  // namespace periscope
