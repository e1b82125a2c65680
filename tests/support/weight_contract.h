#pragma once

#include "sim/model/weights.h"

namespace periscope::testing {

/// A source of which every answer is another one: by function, layer, weight, sublayer and site. Matrices are [4, 3],
/// vectors [1, 4]; every matrix has a bias and every norm one too, whatever a stack would have. On the reference.
class TellingWeights final : public WeightSource {
 public:
  [[nodiscard]] Tensor matrix(int layer, Weight weight) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override;
  [[nodiscard]] Tensor bias(int layer, Weight weight) const override;
  [[nodiscard]] NormWeights norm(int sublayer, NormSite site) const override;
};

/// Checks, for every layer and weight and for every sublayer and norm of a stack of two layers, that `actual` answers
/// as `expected` does, bit for bit, and that its rows of a table are the rows of its matrix.
void check_same_weights(const WeightSource& actual, const WeightSource& expected);

/// Checks that the rows of every table are those of its matrix, bit for bit.
void check_rows_of_tables(const WeightSource& weights);

}  // namespace periscope::testing
