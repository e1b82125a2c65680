#pragma once

#include <span>
#include <vector>

#include "sim/model/context.h"

namespace periscope::gradients {

/// Squared norms of the gradient g_i = ∂loss/∂x_i of one pass, split by path. Sublayer i maps g_{i+1} through its skip
/// connection, S_i = alpha·N_iᵀ with N_i the Jacobian of norm C (the identity without norm C), and through its branch,
/// J_iᵀ. Then for every depth i
///   g_i = s_i + r_i,  s_i = S_i s_{i+1} (skip connections alone),  r_i = S_i r_{i+1} + b_i,  b_i = J_iᵀ g_{i+1}.
/// Without norm C and with alpha = 1, s_i = g_2L and r_i = Σ_{k ≥ i} b_k: Wang et al.'s Eq. 6 (G11).
struct GradientPathSizes {
  std::vector<double> total, skip, rest;  ///< squared norms of g_i, s_i, r_i over all tokens, i = 0 … 2L
  std::vector<double> branch;             ///< squared norm of b_i, i = 0 … 2L−1
  double error = 0.0;  ///< largest ‖g_i − s_i − r_i‖/‖g_i‖ over depths; NaN if any ratio is NaN
};

/// Runs a forward and a backward pass, then computes every b_i from a sublayer without its skip connection. Requires a
/// placement with one stream. `input` [T, D] is the input of the embedding norm.
GradientPathSizes decompose_gradient(const StackContext& context, const Tensor& input, std::span<const int> labels);

/// Returns b_i, the gradient with respect to x [N, D] through the branch alone, from dsum [N, D] at norm C's input.
Tensor branch_gradient(const StackContext& context, int sublayer, const Tensor& x, const Tensor& dsum);

}  // namespace periscope::gradients
