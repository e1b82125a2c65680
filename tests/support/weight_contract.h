#pragma once

#include "sim/model/weights.h"

namespace periscope::testing {

/// Weights on the reference backend in which every tensor is different. Matrices are [4, 3], vectors [1, 4]; every
/// sublayer has every weight, with a bias.
class DistinctWeights final : public WeightSource {
 public:
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
};

/// Checks that both sources return the same bits for every weight of a stack of two layers, and that rows of tables
/// agree with the whole tables.
void check_same_weights(const WeightSource& actual, const WeightSource& expected);

/// Checks that the rows of every table have the bits of the rows of its matrix.
void check_rows_of_tables(const WeightSource& weights);

}  // namespace periscope::testing
