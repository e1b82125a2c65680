#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/base/enumerators.h"
#include "sim/model/hooks.h"
#include "sim/model/weights.h"
#include "sim/numerics/tensor_format.h"
#include "sim/spec/model_spec.h"

/// The hooks that make a pass one in a number format. Tensors are f32 and hold numbers of the formats; ops compute in
/// f32 what lies between two of them, so that sums are accumulated in f32 unless Holding says otherwise. Attention is
/// one op, whose scores and weights stay in f32, as in fused kernels.
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

/// Rounds signals and their gradients as they arise, and multiplies the loss's gradient by the loss scale.
class FormatSignals final : public SignalReplacer {
 public:
  /// All outlive this.
  FormatSignals(const Backend& ops, const ModelSpec& model, const Holding& holding)
      : ops_(ops), model_(model), holding_(holding) {}
  [[nodiscard]] Tensor replaced(const Emission& at, const Tensor& x) override;

 private:
  const Backend& ops_;
  const ModelSpec& model_;
  const Holding& holding_;
};

/// Weights of `source`, which are f64, rounded once to the formats; products read their inputs and the gradients of
/// their outputs rounded too.
class FormatWeights final : public WeightSource {
 public:
  /// All outlive this.
  FormatWeights(const WeightSource& source, const Holding& holding) : source_(source), holding_(holding) {}
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  /// Every row by itself where there is a scale, under ScaleOver::tensor too: the other rows are not drawn.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

 private:
  const WeightSource& source_;
  const Holding& holding_;
};

}  // namespace periscope::formats
