#pragma once

#include <cstdint>

#include "experiments/verify/bound_case.h"

namespace periscope {

/// Case `id` of `seed`: a random sublayer whose shape, kinds and magnitudes are drawn too. Width 1 … 64 and hidden
/// width 1 … 64, small ones often; 1 … 4 tokens; every MLP; RMSNorm and LayerNorm; norms at A, B, C, with and without
/// final norm and unembedding; input, weights and gains of magnitude 1e-6 … 1e6, ε from 0 to 1e6; gains equal, all
/// different or negative; biases; sometimes one massive feature or hidden unit, a matrix of rank 1, a zero W2.
/// A function of its arguments alone.
BoundCase generate_case(std::uint64_t seed, std::uint32_t id);

}  // namespace periscope
