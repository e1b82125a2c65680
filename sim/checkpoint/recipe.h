#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/checkpoint/family.h"

namespace periscope {

/// A family's stack apart from its sizes: its reader's result for a config.json with sizes alone.
struct Recipe {
  /// placement, final_norm, embedding_norm, norm, norm_eps, qk_norm, mlp, rope and causal are the family's.
  ModelSpec model;
  double init_std = 0.0;
  DepthExpression init_residual = 1.0;  ///< factor on the initial W_o and W_down
  /// Second moment of the entries of the initial stack's input: init_std² times the square of the embedding's scale,
  /// plus init_std² for each of learned positions and token types.
  double second_moment = 0.0;
  /// Properties of the family without a key of a configuration, as text.
  std::vector<std::string> beyond;
};

/// Throws ConfigError for a width that the family cannot have.
[[nodiscard]] Recipe recipe_of(const Family& family, int width);

/// Second moment of the entries of the stack's input, for token tables of standard deviation `std` and positions of
/// `position_std`, by default `std` if the model has positions.
[[nodiscard]] double input_second_moment(const ModelSpec& model, double std, std::optional<double> position_std);

/// Second moment of the token table for which the stack's input has `second_moment`, with position and token-type
/// tables of the same size.
[[nodiscard]] double table_second_moment(const ModelSpec& model, double second_moment);

}  // namespace periscope
