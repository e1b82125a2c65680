#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/base/enumerators.h"
#include "sim/base/interface.h"
#include "sim/core/tensor.h"
#include "sim/numerics/number_format.h"
#include "sim/spec/signal.h"

namespace periscope {

/// Summation order. A certificate is valid for every order.
enum class SumOrder {
  sequential,
  reversed,
  pairwise,         ///< recursive halves
  lanes,            ///< four interleaved running sums, then their sum
  shuffled,         ///< a new random order for every sum
  positives_first,  ///< the order with the largest partial sums
  negatives_first,
  small_first,
  large_first,
};
inline constexpr std::array<std::string_view, 9> sum_order_names{"sequential",      "reversed",    "pairwise",
                                                                 "lanes",           "shuffled",    "positives-first",
                                                                 "negatives-first", "small-first", "large-first"};
static_assert(are_names_of<SumOrder>(sum_order_names));

/// An arithmetic and the choices that an implementation may make.
struct Emulation {
  RunArithmetic arithmetic = {};
  SumOrder order = SumOrder::sequential;
  /// Norms store the normalized vector and the results of gain and bias (Llama). If false, only the result of a norm
  /// is stored, and its steps use the accumulation format (Gemma, LayerNorm).
  bool norm_stores_steps = true;
  bool fused = false;           ///< products are added unrounded (FMA)
  bool reciprocal = false;      ///< norms and softmax multiply by a rounded reciprocal instead of dividing
  bool stored_scalars = false;  ///< factors such as α are rounded to the stored instead of the accumulation format
  bool chains = false;          ///< queries are scaled and stored before q·k (OPT); tanh-GELU stores every step
  std::uint64_t seed = 0;       ///< seed of shuffled orders
};

/// Receives the largest magnitudes inside ops; NaN counts as infinite.
class Watch : public Interface {
 public:
  /// Receives one magnitude per query head for `dots` and attention's `cap_inputs`, one per feature for `gated`, and
  /// one for other signals. `parameter` is the op's matrix or gain, which identifies its place in the stack, or null.
  virtual void on_inner(const Tensor* parameter, Signal signal, std::span<const double> magnitudes) = 0;
};

}  // namespace periscope
