#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/tensor.h"
#include "sim/numerics/tensor_format.h"
#include "sim/spec/streams.h"

namespace periscope {

/// Returns the dequantized values of x [N, D], f64 or f32 in host memory, as an f32 tensor: numbers of the format times
/// their scale. f64 entries are rounded directly to the format, not to f32 first. f32 represents every number of the
/// floating-point formats; scaled integers are rounded to f32.
/// Stochastic rounding uses word `first` + i of stream `key` for entry i. The result is independent of the evaluation
/// order, and rows of a table can be quantized separately.
Tensor quantized(const Tensor& x, const Quantization& quantization, StreamKey key, std::uint64_t first = 0);

/// Returns the expected squared error E(x̂ − x)² of `quantized` for every entry of x [N, D], row-major. Stochastic
/// rounding between the neighbours a ≤ x ≤ b has E(x̂ − x)² = (x − a)(b − x) (T26).
std::vector<double> square_errors(const Tensor& x, const Quantization& quantization);

}  // namespace periscope
