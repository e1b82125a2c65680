#pragma once

#include <cstdint>
#include <span>

#include "sim/model/sublayer_pass.h"

namespace periscope {

/// Gaussian input [T, D]: x_t = √m (√c z₀ + √(1−c) z_t) with m = second_moment, c = correlation, and z
/// independent standard normal vectors from the seed's input streams.
Tensor gaussian_input(const Backend& backend, const StackSpec& spec, DType dtype, std::uint64_t seed);

/// Token input [ids.size(), D] from the source's tables, as defined by EmbeddingSpec.
Tensor embedding_forward(const StackContext& context, std::span<const int> ids, const Hooks& hooks = {});

/// Passes gradients of the embedding tables and projection to the hooks, given the input's gradient [ids.size(), D].
void embedding_backward(const StackContext& context, std::span<const int> ids, const Tensor& dinput,
                        const Hooks& hooks);

}  // namespace periscope
