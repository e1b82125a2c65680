#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/model/weights.h"

namespace periscope {

/// Where the factor of the embedding goes, in a stack without an embedding norm.
enum class TableFactor {
  scale,       ///< into the number that the model multiplies rows by: the table stays, and with it a tied unembedding
  table,       ///< into the table, which is the embedding's own
  tied_table,  ///< into the table; what the unembedding reads is divided, because the table is the unembedding's too
};

/// The factors by which a stack's signals are scaled, without changing its function.
struct StackScale {
  double stream = 1.0;  ///< c: the stream x becomes c·x at every depth
  double branch = 1.0;  ///< k: what norm B reads becomes k·f, in sublayers that have one
  /// Only gains and biases of norms, the embedding's scale and the tables, even if that changes the function.
  bool gains_only = false;
  TableFactor embedding = TableFactor::scale;
};

/// The model of a scaled stack: with TableFactor::scale the embedding's scale is multiplied by c, unless an embedding
/// norm follows. The caller multiplies real-valued inputs without an embedding norm.
ModelSpec scaled_model(ModelSpec model, const StackScale& scale);

/// The factor of one parameter of the scaled stack, by T1. Writers to the stream are multiplied by c: gain and bias of
/// norms B, C and of the embedding norm, or else W_o and W_down with their biases and the position and token-type
/// tables. Readers without a norm are divided by c: W_q, W_k, W_v, W_gate and W_up of sublayers without a norm A, and
/// without a final norm the head's first matrix. After a norm A, C or final norm only ε changes, which acts like ε/c².
/// ResiDual adds x to the final norm's output: that norm's gain and bias are multiplied too, and the head divided. With
/// a tied table the final norm's gain and bias, or the matrix after it, are divided instead of the head. k goes into
/// W_o, W_down and their biases; in a gated MLP into W_up and its bias instead of W_down, so that the hidden layer
/// shrinks too. Norm B removes it, up to ε.
double factor_of(const ModelSpec& model, const StackScale& scale, const ParameterId& id);

/// The weights of the scaled stack: every parameter times its factor.
class ScaledWeights final : public WeightSource {
 public:
  /// The backend, the model (before scaling) and the source outlive this.
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

/// The parameters to be multiplied or divided by c, as text; gains and embedding come first.
struct ScaleRecipe {
  std::vector<std::string> multiplied;
  std::vector<std::string> divided;
  bool gains_alone;  ///< nothing but the embedding's scale and gains and biases of norms
};
ScaleRecipe recipe_of(const ModelSpec& model, TableFactor embedding = TableFactor::scale);

/// False for a stack with neither final norm nor unembedding, and for pointwise norms, whose output changes with scale.
bool can_scale(const ModelSpec& model);

/// Why the size of a stack's streams is not a gauge, as the end of a sentence; nullopt if it is: every module and the
/// head read them through a norm that divides by their size, and there is no norm C. Then only writers have to be
/// scaled.
std::optional<std::string> gauge_unsupported(const ModelSpec& model, TableFactor embedding);

}  // namespace periscope
