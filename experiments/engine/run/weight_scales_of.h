#pragma once

#include <span>

#include "sim/core/backend.h"
#include "sim/model/weights.h"
#include "sim/spec/weight_scales.h"

namespace periscope::stacks {

/// What is kept of the sizes of a matrix's entries (T29).
enum class PreservedSizes {
  matrices,         ///< the root mean square of all of its entries
  rows,             ///< and of every row
  rows_and_columns  ///< and of every column: a profile of rank one
};

/// Returns the scales of given weights: the root mean square of every matrix and of every nonzero bias, the gains of
/// every norm and, as `kept` says, variance profiles of matrices and tables. A table's rows are weighted by how often
/// the tokens `ids` use them. Sums are taken in double, those over columns in the weights' type.
///
/// The rank-one profile has r_i² ∝ Σ_j W_ij² and c_j² ∝ Σ_i W_ij². Random weights with it have the given mean square of
/// every row and column in expectation; with the maximum-likelihood profile of normal entries they would not.
[[nodiscard]] WeightScales scales_of(const Backend& ops, const ModelSpec& model, const WeightSource& weights,
                                     std::span<const int> ids, PreservedSizes kept = PreservedSizes::matrices);

/// Returns the row of a table that each of the tokens `ids` uses.
[[nodiscard]] std::vector<int> rows_in_use(const EmbeddingSpec& embedding, Weight table, std::span<const int> ids);

}  // namespace periscope::stacks
