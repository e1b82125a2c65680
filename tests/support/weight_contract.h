#pragma once

#include "sim/model/weights.h"

namespace periscope::testing {

/// A source of which every answer is another one: by sublayer, weight and part. Matrices are [4, 3], vectors [1, 4];
/// every sublayer has every weight, every matrix a bias and every norm one too. On the reference.
class TellingWeights final : public WeightSource {
 public:
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
};

/// Checks, for every sublayer of a stack of two layers and for what lies before and after them, that `actual` answers
/// as `expected` does, bit for bit, and that its rows of a table are the rows of its matrix.
void check_same_weights(const WeightSource& actual, const WeightSource& expected);

/// Checks that the rows of every table are those of its matrix, bit for bit.
void check_rows_of_tables(const WeightSource& weights);

}  // namespace periscope::testing
