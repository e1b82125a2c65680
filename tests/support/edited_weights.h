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
  using NormEdit = std::function<NormWeights(int sublayer, NormSite site, const NormWeights& w)>;

  EditedWeights(const WeightSource& source, MatrixEdit matrix_edit, NormEdit norm_edit)
      : source_(source), matrix_edit_(std::move(matrix_edit)), norm_edit_(std::move(norm_edit)) {}

  [[nodiscard]] Tensor matrix(int layer, Weight weight) const override {
    return matrix_edit_(layer, weight, source_.matrix(layer, weight));
  }
  /// Of the edited table, which an edit may have to see whole.
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    return rows_of_matrix(ops, table, ids);
  }
  [[nodiscard]] Tensor bias(int layer, Weight weight) const override { return source_.bias(layer, weight); }
  [[nodiscard]] NormWeights norm(int sublayer, NormSite site) const override {
    return norm_edit_(sublayer, site, source_.norm(sublayer, site));
  }

 private:
  const WeightSource& source_;
  MatrixEdit matrix_edit_;
  NormEdit norm_edit_;
};

inline Tensor same_matrix(int /*layer*/, Weight /*weight*/, const Tensor& w) { return w; }
inline NormWeights same_norm(int /*sublayer*/, NormSite /*site*/, const NormWeights& w) { return w; }

/// Gains |N(0,1)| + ½ and biases N(0,1), different for every norm: scalar gains would hide a norm that
/// uses another's weights. Positive, so that homogeneous modules stay comparable.
EditedWeights::NormEdit random_norms(const Backend& backend);

}  // namespace periscope::testing
