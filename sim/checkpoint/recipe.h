#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/checkpoint/family.h"

namespace periscope {

/// Properties of a family's stacks that do not depend on the sizes, read from a config.json that contains only sizes.
struct Recipe {
  /// placement, final_norm, embedding_norm, norm, norm_eps, qk_norm, mlp, rope and causal are set by the family.
  ModelSpec model;
  double init_std = 0.0;
  DepthExpression init_residual = 1.0;  ///< factor that multiplies the initial W_o and W_down
  /// Second moment of the stack's input at initialisation: init_std² times the squared embedding scale, plus init_std²
  /// each for learned positions and token types.
  double second_moment = 0.0;
  /// Properties of the family that no configuration key can set, as text.
  std::vector<std::string> extras;
};

/// Throws ConfigError if the family does not support the width.
[[nodiscard]] Recipe recipe_of(const Family& family, int width);

/// Returns the second moment of the stack's input if positions have standard deviation `position_std` and all other
/// tables have `std`. The default of `position_std` is `std` if the model has positions, else 0.
[[nodiscard]] double input_second_moment(const ModelSpec& model, double std, std::optional<double> position_std);

/// Returns the common second moment of all tables for which the stack's input has `second_moment`.
[[nodiscard]] double table_second_moment(const ModelSpec& model, double second_moment);

}  // namespace periscope
