#pragma once

#include <span>

#include "sim/core/backend.h"
#include "sim/model/weights.h"
#include "sim/spec/weight_scales.h"

namespace periscope::stacks {

/// Sizes of given weights that a null model preserves (T29). Each value also preserves the preceding ones.
enum class PreservedSizes {
  matrices,         ///< root mean square of every matrix
  rows,             ///< root mean square of every row
  rows_and_columns  ///< root mean square of every column: a profile of rank one
};

/// Returns the scales of given weights: the root mean square of every matrix and nonzero bias, the gains of every norm
/// and, depending on `preserved`, variance profiles of matrices and tables. Rows of a table are weighted by how often
/// the tokens `ids` use them. Sums are accumulated in double, except sums over columns, which use the weights' dtype.
///
/// The rank-one profile has r_i² ∝ Σ_j W_ij² and c_j² ∝ Σ_i W_ij². Random weights with this profile, unlike with the
/// maximum-likelihood profile of normal entries, have the given mean square of every row and column in expectation.
[[nodiscard]] WeightScales scales_of(const Backend& ops, const ModelSpec& model, const WeightSource& weights,
                                     std::span<const int> ids, PreservedSizes preserved = PreservedSizes::matrices);

/// Returns the table row used by each token of `ids`.
[[nodiscard]] std::vector<int> rows_in_use(const EmbeddingSpec& embedding, Weight table, std::span<const int> ids);

}  // namespace periscope::stacks
