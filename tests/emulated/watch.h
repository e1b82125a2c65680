#pragma once

#include <array>
#include <span>
#include <string_view>

#include "sim/base/enumerators.h"
#include "sim/base/interface.h"
#include "sim/core/tensor.h"

namespace periscope {

/// A number inside an op, which the op's result does not show.
enum class Inner {
  partial_sum,      ///< of a linear map, one per output feature
  product,          ///< its result as it is stored, before any bias, one per output feature
  mean_sum,         ///< partial sums of x in a LayerNorm, one
  centred,          ///< x − mean in a LayerNorm, one per feature
  square,           ///< of what a norm divides, one
  square_sum,       ///< partial sums of squares, one
  reciprocal,       ///< 1/√(mean square + ε), one
  normalised,       ///< before the gain, one per feature
  gained,           ///< before the bias, one per feature
  scaled,           ///< a·x or b·y of a sum where the factor is not 1, one per feature
  turned,           ///< one of rope's two products, one per feature
  dot_sum,          ///< partial sums of q·k, one per query head
  dot,              ///< q·k, one per query head
  scaled_dot,       ///< before the soft cap, one per query head
  capped,           ///< z/c and its hyperbolic tangent, one per query head, or per feature
  score,            ///< what enters the softmax, one per query head
  denominator_sum,  ///< of softmax, one per query head
  mixed_sum,        ///< partial sums of weights·v, one per feature
  activated,        ///< φ(gate), one per feature
  bend_input,       ///< αx of a pointwise norm, one per feature
};
inline constexpr std::array<std::string_view, 20> inner_names{
    "partial sum", "W x before its bias", "mean's sum",    "x - mean", "square",      "sum of squares",
    "1/rms",       "x before gain",       "x before bias", "scaled x", "rope",        "q.k's sum",
    "q.k",         "scaled q.k",          "capped q.k",    "score",    "denominator", "weights.v's sum",
    "activation",  "alpha x of a norm"};
static_assert(are_names_of<Inner>(inner_names));

/// Is told the largest magnitudes inside ops; infinite where something was not a number.
class Watch : public Interface {
 public:
  /// `parameter` is the op's matrix or gain, which says where in the stack it is; null for ops that have none.
  virtual void on_inner(const Tensor* parameter, Inner inner, std::span<const double> magnitudes) = 0;
};

}  // namespace periscope
