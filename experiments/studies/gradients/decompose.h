#pragma once

#include <span>
#include <vector>

#include "sim/model/context.h"

namespace periscope::gradients {

/// The gradient of one pass, g_i = ∂loss/∂x_i, by the paths that it took. Sublayer i sends g_{i+1} down its skip
/// connection, S_i = alpha·N_iᵀ with N_i the Jacobian of norm C (the identity without one), and down its branch,
/// J_iᵀ. Then for every depth i
///   g_i = s_i + r_i,  s_i = S_i s_{i+1} (skip connections alone),  r_i = S_i r_{i+1} + b_i,  b_i = J_iᵀ g_{i+1}.
/// Without norm C and with alpha = 1 this is s_i = g_2L and r_i = Σ_{k ≥ i} b_k: Wang et al.'s Eq. 6 (G11).
struct GradientPathSizes {
  std::vector<double> total, skip, rest;  ///< squared norms of g_i, s_i, r_i over all tokens, i = 0 … 2L
  std::vector<double> branch;             ///< squared norm of b_i, i = 0 … 2L−1
  double error = 0.0;                     ///< largest ‖g_i − s_i − r_i‖/‖g_i‖ over depths; NaN if one is
};

/// Runs a pass and back, then takes every b_i from a sublayer without skip connection and adds up. Needs a placement
/// with one stream. `input` [T, D] is what the embedding norm sees.
GradientPathSizes decompose_gradient(const StackContext& context, const Tensor& input, std::span<const int> labels);

/// b_i: gradient of x [N, D] from that of norm C's input, dsum [N, D], through the branch alone.
Tensor branch_gradient(const StackContext& context, int sublayer, const Tensor& x, const Tensor& dsum);

}  // namespace periscope::gradients
