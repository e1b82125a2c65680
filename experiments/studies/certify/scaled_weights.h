#pragma once

#include <string>
#include <vector>

#include "sim/model/weights.h"

namespace periscope::certify {

/// The factors by which a stack's signals are to be larger, while its function stays what it is.
struct StackScale {
  double stream = 1.0;  ///< c: the stream x becomes c·x at every depth
  double branch = 1.0;  ///< k: what norm B reads becomes k·f, in sublayers that have one
  /// Only norms' gains and biases, the embedding's scale and the tables, even where that changes the function.
  bool gains_only = false;
};

/// The model of a scaled stack: the embedding's scale is multiplied by c, unless an embedding norm follows. The table
/// itself stays, so a tied unembedding does too. Real-valued inputs without an embedding norm have to be multiplied by
/// the caller.
ModelSpec scaled_model(ModelSpec model, const StackScale& scale);

/// The weights of the scaled stack, by T1. What writes to the stream is multiplied by c: gain and bias of norms B, C
/// and of the embedding norm, or else W_o and W_down with their biases and the position and token-type tables. What
/// reads it as it is is divided by c: W_q, W_k, W_v, W_gate and W_up of sublayers without a norm A, and without a final
/// norm the head's first matrix. Behind a norm A, C or final norm nothing changes but ε, which acts like ε/c². ResiDual
/// adds x to the final norm's output: that norm's gain and bias are multiplied too, and the head divided. k goes into
/// W_o, W_down and their biases; in a gated MLP into W_up and its bias instead of W_down, so that the hidden layer
/// shrinks as well. Norm B takes it out again, up to its ε.
class ScaledWeights final : public WeightSource {
 public:
  /// The backend, the model (before scaling) and the source outlive this.
  ScaledWeights(const Backend& backend, const ModelSpec& model, const WeightSource& source, const StackScale& scale)
      : backend_(backend), model_(model), source_(source), scale_(scale) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;

 private:
  [[nodiscard]] double matrix_factor(int sublayer, Weight weight) const;
  [[nodiscard]] double bias_factor(int sublayer, Weight weight) const;
  [[nodiscard]] double norm_factor(Weight norm) const;
  [[nodiscard]] Tensor times(double factor, const Tensor& x) const;

  const Backend& backend_;
  const ModelSpec& model_;
  const WeightSource& source_;
  StackScale scale_;
};

/// The parameters that have to be multiplied or divided by c, for people; the first entries are those of gains and of
/// the embedding.
struct ScaleRecipe {
  std::vector<std::string> multiplied;
  std::vector<std::string> divided;
  bool gains_alone;  ///< nothing but the embedding's scale and gains and biases of norms
};
ScaleRecipe recipe_of(const ModelSpec& model);

/// A stack whose output is its result, with neither final norm nor unembedding, cannot be scaled; and none whose norms
/// bend every entry by itself, which makes something else of a larger stream.
bool can_scale(const ModelSpec& model);

}  // namespace periscope::certify
