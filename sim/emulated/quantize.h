#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/tensor.h"
#include "sim/numerics/tensor_format.h"
#include "sim/spec/streams.h"

namespace periscope {

/// x [N, D], f64 or f32 in host memory, as a tensor of f32 whose entries are the values that `quantization` holds of
/// them: numbers of the format, times their scale. An f64 entry is rounded once, not by way of f32 (which holds every
/// value of the formats; scaled integers are rounded to it).
/// Stochastic rounding takes word first + i of the stream `key` for entry i, so that the result depends on no order,
/// and rows of a table can be rounded like the whole.
Tensor quantized(const Tensor& x, const Quantization& quantization, StreamKey key, std::uint64_t first = 0);

/// Returns the error that `quantized` makes on x [N, D]: the mean square error of every entry, row-major. To nearest it
/// is (x̂ − x)² itself. Stochastic rounding to one of the neighbours a ≤ x ≤ b, to b with probability (x − a)/(b − a),
/// has E(x̂ − x)² = (x − a)(b − x) (T26).
std::vector<double> square_errors(const Tensor& x, const Quantization& quantization);

}  // namespace periscope
