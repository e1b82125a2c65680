#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/base/enumerators.h"
#include "sim/model/hooks.h"
#include "sim/numerics/tensor_format.h"
#include "sim/spec/model_spec.h"

namespace periscope::formats {

/// The tensors of a pass, by what holds them.
enum class Part {
  stream,   ///< the residual stream, and what is summed into it
  norms,    ///< what norms put out, their gains and biases
  modules,  ///< what arises inside attention and MLP, their outputs, and the head's
  inputs,   ///< what a matrix reads: its input, and in the backward pass the gradient of its output
  weights,  ///< matrices and tables
};
inline constexpr std::array<std::string_view, 5> part_names{"stream", "norms", "modules", "inputs", "weights"};
static_assert(are_names_of<Part>(part_names));

/// The formats in which the tensors of a pass are held. Everything else (what an op computes on the way, gradients of
/// weights) is in f32.
struct Holding {
  std::array<Quantization, part_names.size()> parts;
  std::optional<NumberFormat> sums;  ///< accumulation format of products with matrices; nullopt means f32
  double loss_scale = 1.0;
  std::uint64_t seed = 0;  ///< of stochastic rounding

  [[nodiscard]] const Quantization& of(Part part) const { return parts[static_cast<std::size_t>(part)]; }
};

/// Returns what holds a signal, or in the backward pass its gradient; nothing for a tensor that is held already or goes
/// no further (x_in, q_in … up_in in the forward pass, scores). A norm that the placement does not have holds nothing:
/// its output is its input.
std::optional<Part> part_of(const ModelSpec& model, const Emission& at);

}  // namespace periscope::formats
