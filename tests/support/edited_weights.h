#pragma once

#include <functional>
#include <utility>

#include "sim/model/weights.h"

namespace periscope::testing {

/// Another source's weights, some of its matrices and norms changed on the way. Edits return what they are given, or
/// else.
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

/// Gains |N(0,1)| + ½ and biases N(0,1), different for every norm: scalar gains would hide a norm that
/// uses another's weights. Positive, so that homogeneous modules stay comparable.
EditedWeights::NormEdit random_norms(const Backend& backend);

/// A whole matrix; a norm. The layer of what no layer owns does not matter, nor does its sublayer.
Tensor matrix_of(const WeightSource& source, const ModelSpec& model, int layer, Weight weight);
NormWeights norm_of(const WeightSource& source, const ModelSpec& model, int sublayer, Weight norm);

}  // namespace periscope::testing
