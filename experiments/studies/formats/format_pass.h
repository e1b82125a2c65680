#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "sim/base/enumerators.h"
#include "sim/model/hooks.h"
#include "sim/model/weights.h"
#include "sim/numerics/tensor_format.h"
#include "sim/spec/model_spec.h"

/// Hooks that emulate number formats in a pass. Tensors have dtype f32, with values that the formats can represent. Ops
/// compute in f32, so sums accumulate in f32 unless FormatChoice::sums is set. Attention is one op: scores and weights
/// stay in f32, as in fused kernels.
namespace periscope::formats {

/// The tensors of a pass, in groups that share a format.
enum class Part {
  stream,   ///< the residual stream, and the sums that form it
  norms,    ///< outputs, gains and biases of norms
  modules,  ///< signals inside attention and MLP, their outputs, and the head's output
  inputs,   ///< inputs of matrices and, in the backward pass, gradients of their outputs
  weights,  ///< matrices and tables
};
inline constexpr std::array<std::string_view, 5> part_names{"stream", "norms", "modules", "inputs", "weights"};
static_assert(are_names_of<Part>(part_names));

/// The formats of the tensors of a pass. Everything else (intermediate values of ops, gradients of weights) is in f32.
struct FormatChoice {
  std::array<Quantization, part_names.size()> parts;
  std::optional<NumberFormat> sums;  ///< accumulation format of products with matrices; nullopt means f32
  double loss_scale = 1.0;
  std::uint64_t seed = 0;      ///< seed of stochastic rounding
  bool backward_only = false;  ///< the forward pass is in f32

  /// Returns the format of a part in the forward pass, or where the backward pass reads it.
  [[nodiscard]] const Quantization& of(Part part, bool backward = false) const {
    static constexpr Quantization in_f32{{fp32.name, fp32}};
    return backward_only && !backward ? in_f32 : parts[static_cast<std::size_t>(part)];
  }
};

/// A matrix whose weights, inputs and output gradients are rounded.
struct RoundedMatrix {
  std::shared_ptr<const LinearMap> map;
  const FormatChoice& choice;  ///< must outlive the matrix and its products
  int sublayer;
  Weight weight;

  /// `backward`: see FormatChoice::of.
  [[nodiscard]] Tensor rounded(const Tensor& x, Part part, Rounded what, bool backward = false) const;
  [[nodiscard]] Tensor weights(bool backward = false) const {
    return rounded(map->dense(), Part::weights, Rounded::weight, backward);
  }
  /// Returns x wᵀ in the forward pass, of rounded x [N, in] and w [out, in].
  [[nodiscard]] Tensor product(const Backend& ops, const Tensor& x, const Tensor& w) const;
};

/// Returns the part that a signal, or in the backward pass its gradient, belongs to. nullopt for tensors that are
/// already rounded or not stored (x_in, q_in … up_in in the forward pass, scores). The output of a missing norm belongs
/// to the part of the norm's input.
std::optional<Part> part_of(const ModelSpec& model, const Emission& at);

/// Rounds signals and their gradients during a pass, and multiplies the loss's gradient by the loss scale.
class FormatSignals final : public SignalReplacer {
 public:
  /// All arguments must outlive this.
  FormatSignals(const Backend& ops, const ModelSpec& model, const FormatChoice& choice)
      : ops_(ops), model_(model), choice_(choice) {}
  [[nodiscard]] Tensor replaced(const Emission& at, const Tensor& x) override;

 private:
  const Backend& ops_;
  const ModelSpec& model_;
  const FormatChoice& choice_;
};

/// Weights of `source` (f64), rounded once to the formats. Products also round their inputs and output gradients.
class FormatWeights final : public WeightSource {
 public:
  /// All arguments must outlive this.
  FormatWeights(const WeightSource& source, const FormatChoice& choice) : source_(source), choice_(choice) {}
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  /// Every row has a separate scale, even with ScaleOver::tensor, because the other rows are not drawn.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

 private:
  const WeightSource& source_;
  const FormatChoice& choice_;
};

}  // namespace periscope::formats
