#pragma once

#include <functional>
#include <utility>

#include "sim/model/weights.h"

namespace periscope::testing {

/// Weights of another source with edits applied to every matrix and norm.
class EditedWeights final : public WeightSource {
 public:
  using MatrixEdit = std::function<Tensor(int layer, Weight weight, const Tensor& w)>;
  using NormEdit = std::function<NormWeights(int sublayer, Weight norm, const NormWeights& w)>;

  EditedWeights(const WeightSource& source, MatrixEdit matrix_edit, NormEdit norm_edit)
      : source_(source), matrix_edit_(std::move(matrix_edit)), norm_edit_(std::move(norm_edit)) {}

  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;

 private:
  const WeightSource& source_;
  MatrixEdit matrix_edit_;
  NormEdit norm_edit_;
};

inline Tensor same_matrix(int /*layer*/, Weight /*weight*/, const Tensor& w) { return w; }
inline NormWeights same_norm(int /*sublayer*/, Weight /*norm*/, const NormWeights& w) { return w; }

/// Gains |N(0,1)| + ½ and biases N(0,1), different for every norm, so that a norm with another norm's weights is
/// detected. Gains are positive to keep homogeneous modules comparable.
EditedWeights::NormEdit random_norms(const Backend& backend);

/// Return a whole matrix and the weights of a norm. `layer` and `sublayer` are ignored for weights outside layers.
Tensor matrix_of(const WeightSource& source, const ModelSpec& model, int layer, Weight weight);
NormWeights norm_of(const WeightSource& source, const ModelSpec& model, int sublayer, Weight norm);

}  // namespace periscope::testing
