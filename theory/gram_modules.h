#pragma once

#include "theory/gram_signal.h"

/// The modules of the chain T25, between Gaussian matrices. A matrix of standard deviation s turns an input with
/// coordinates a [T, r] into independent features a·g, g [r, 1] normal of standard deviation s, however wide the input
/// is. So inside a module there are the signals of a run, and at its end the covariance of the last matrix's output.
namespace periscope::theory {

/// Root [T, k], k ≤ T, of the covariance over tokens of one feature of attention's output: that covariance is
/// σ_o² Σ_h (A_h V_h)(A_h V_h)ᵀ, heads of one group sharing keys and values.
Matrix attention_root(const StackSpec& spec, int layer, const Matrix& input, NormalStream& stream);

/// Likewise of the MLP's output: σ_d² Σ_j hidden_j hidden_jᵀ over the hidden features.
Matrix mlp_root(const StackSpec& spec, const Matrix& input, NormalStream& stream);

}  // namespace periscope::theory
