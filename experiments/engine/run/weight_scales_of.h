#pragma once

#include <span>

#include "sim/core/backend.h"
#include "sim/model/weights.h"
#include "sim/spec/weight_scales.h"

namespace periscope::stacks {

/// Which sizes of a matrix's entries are kept (T29).
enum class SizesKept {
  matrices,         ///< the root mean square of all of its entries
  rows,             ///< and of every row
  rows_and_columns  ///< and of every column: a profile of rank one
};

/// The scales of given weights: the root mean square of every matrix and of every bias that is not 0, and the gains of
/// every norm; with `kept` also the profiles inside matrices and tables. Of tables the rows count that the tokens `ids`
/// use, as often as they do. Sums are taken in double, those over columns in the weights' type.
///
/// The profile of rank one is that of the marginals, r_i² ∝ Σ_j W_ij², c_j² ∝ Σ_i W_ij²: its random weights have every
/// row's and every column's mean square in expectation, which the likeliest profile of normal entries does not.
[[nodiscard]] WeightScales scales_of(const Backend& ops, const ModelSpec& model, const WeightSource& weights,
                                     std::span<const int> ids, SizesKept kept = SizesKept::matrices);

/// Returns the rows of a table that the tokens `ids` use, one after another.
[[nodiscard]] std::vector<int> rows_in_use(const EmbeddingSpec& embedding, Weight table, std::span<const int> ids);

}  // namespace periscope::stacks
