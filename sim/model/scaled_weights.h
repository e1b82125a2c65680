#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/model/weights.h"

namespace periscope {

/// Parameter that is multiplied by c to scale the embedding in a stack without an embedding norm.
enum class TableFactor {
  scale,       ///< embedding.scale: the table, and with it a tied unembedding, stays unchanged
  table,       ///< the embedding table, if it is not tied
  tied_table,  ///< the tied table; the unembedding's input is divided by c to compensate
};

/// Factors that scale a stack's signals without changing its function.
struct StackScale {
  double stream = 1.0;  ///< c: the stream x becomes c·x at every depth
  double branch = 1.0;  ///< k: the input f of norm B becomes k·f, in sublayers with a norm B
  /// Scale only gains and biases of norms, embedding.scale and the tables, even if that changes the function.
  bool gains_only = false;
  TableFactor embedding = TableFactor::scale;
};

/// Returns the model of the scaled stack: with TableFactor::scale, embedding.scale is multiplied by c unless there is
/// an embedding norm. Without one, the caller must scale real-valued inputs.
ModelSpec scaled_model(ModelSpec model, const StackScale& scale);

/// Returns the factor of one parameter in the scaled stack (T1). Parameters that write to the stream are multiplied by
/// c: gain and bias of norms B, C and of the embedding norm, or else W_o and W_down with their biases and the position
/// and token-type tables. Parameters that read without a norm are divided by c: W_q, W_k, W_v, W_gate and W_up of
/// sublayers without a norm A, and the head's first matrix if there is no final norm. Norms A, C and the final norm
/// divide by the stream's scale, so only their ε changes, in effect to ε/c². ResiDual adds x to the final norm's
/// output, so that norm's gain and bias are also multiplied, and the head is divided. With a tied table, the final
/// norm's gain and bias, or the matrix after it, are divided instead of the head. k multiplies W_o, W_down and their
/// biases; in a gated MLP, W_up and its bias instead of W_down, so that the hidden layer is scaled, too. Norm B removes
/// k, up to ε.
double factor_of(const ModelSpec& model, const StackScale& scale, const ParameterId& id);

/// Weights of the scaled stack: every parameter times its factor.
class ScaledWeights final : public WeightSource {
 public:
  /// The backend, the model (before scaling) and the source must outlive this object.
  ScaledWeights(const Backend& backend, const ModelSpec& model, const WeightSource& source, const StackScale& scale)
      : backend_(backend), model_(model), source_(source), scale_(scale) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

 private:
  [[nodiscard]] Tensor times(double factor, const Tensor& x) const;

  const Backend& backend_;
  const ModelSpec& model_;
  const WeightSource& source_;
  StackScale scale_;
};

/// Descriptions of the parameters to multiply or divide by c; gains and the embedding come first.
struct ScaleRecipe {
  std::vector<std::string> multiplied;
  std::vector<std::string> divided;
  bool gains_only;  ///< only embedding.scale and gains and biases of norms are changed
};
ScaleRecipe recipe_of(const ModelSpec& model, TableFactor embedding = TableFactor::scale);

/// False for a stack with neither final norm nor unembedding, and for pointwise norms, whose output depends on scale.
bool can_scale(const ModelSpec& model);

/// Returns why rescaling the streams requires more than scaling the parameters that write to them, phrased as the
/// end of a sentence. Returns nullopt if every module and the head read the streams through a norm that divides by
/// their scale, and there is no norm C.
std::optional<std::string> gauge_unsupported(const ModelSpec& model, TableFactor embedding);

}  // namespace periscope
