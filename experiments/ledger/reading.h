#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/engine/result/dataset.h"

namespace periscope::ledger {

/// Numbers read from a result: `values` [seeds, length], row-major.
struct Numbers {
  std::vector<double> values;
  std::size_t seeds = 0;  ///< 0: the numbers are not per seed, as if there were one
  std::size_t length = 1;

  [[nodiscard]] std::size_t rows() const { return seeds == 0 ? 1 : seeds; }
  [[nodiscard]] double at(std::size_t seed, std::size_t i) const {
    return values[(seeds == 0 ? 0 : seed) * length + (length == 1 ? 0 : i)];
  }
};

/// Evaluates an expression over the columns of a result, such as
///   log(second_moment_per_seed[placement=pre, depth=-1]) - log(second_moment_per_seed[placement=pre, depth=0]).
/// NAME[dimension=label, …] is a column at labels of its coordinates, quoted if they contain a comma or bracket. A
/// negative index counts from the end of a numbered dimension, and first:last is a range of positions, both included.
/// Dimensions of length 1 may be omitted, and a text column on a dimension, such as `placement` on `case`, may stand
/// for it. Of the others, at most one besides `seed` may remain; its entries are reduced by max, min, mean, first, last
/// or slope (least squares against the index), which skip missing values. Also: + − * /, parentheses, log, log2, exp,
/// sqrt, abs. Throws ConfigError for an invalid expression, InputError for a column, dimension or label that the result
/// does not have.
Numbers evaluate(const std::string& expression, const dataset::Dataset& data);

/// Returns the text of a column at labels, in the same notation. Throws as evaluate does.
std::string text_at(const std::string& reference, const dataset::Dataset& data);

}  // namespace periscope::ledger
