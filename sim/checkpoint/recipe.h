#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/checkpoint/family.h"

namespace periscope {

/// The kind of stack that a family is, apart from its sizes: what its reader makes of a config.json that says sizes
/// alone, so of the defaults of the public implementation.
struct Recipe {
  /// placement, final_norm, embedding_norm, norm, norm_eps, qk_norm, mlp, rope and causal are the family's.
  ModelSpec model;
  double init_std = 0.0;
  DepthExpression init_residual = 1.0;  ///< factor on the initial W_o and W_down
  /// The second moment of the entries of the stack's input at initialisation: init_std² times the square of the
  /// embedding's scale, plus init_std² for each of learned positions and token types.
  double second_moment = 0.0;
  /// The properties of the family that no key of a configuration describes, in words.
  std::vector<std::string> beyond;
};

/// The recipe for a stack of that width. Throws ConfigError for a width that the family cannot have.
[[nodiscard]] Recipe recipe_of(const Family& family, int width);

/// Returns the second moment of the entries of the stack's input. Entries of token tables have the standard deviation
/// `std`, those of positions `position_std`; without it, positions have `std` if the model has any.
[[nodiscard]] double input_second_moment(const ModelSpec& model, double std, std::optional<double> position_std);

/// Returns the second moment that a table of token embeddings needs so that the input of a stack of this model has
/// `second_moment`: tables of positions and token types are as large, and the embedding's scale comes on top.
[[nodiscard]] double table_second_moment(const ModelSpec& model, double second_moment);

}  // namespace periscope
