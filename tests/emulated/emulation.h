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

/// The order in which the terms of a sum are added. A certificate holds for every order.
enum class SumOrder {
  sequential,
  reversed,
  pairwise,         ///< halves of halves
  lanes,            ///< four running sums side by side, then their sum
  shuffled,         ///< a different random order for every sum
  positives_first,  ///< makes the partial sums as large as any order can
  negatives_first,
  small_first,
  large_first,
};
inline constexpr std::array<std::string_view, 9> sum_order_names{"sequential",      "reversed",    "pairwise",
                                                                 "lanes",           "shuffled",    "positives-first",
                                                                 "negatives-first", "small-first", "large-first"};
static_assert(are_names_of<SumOrder>(sum_order_names));

/// An arithmetic, and the choices that it leaves to the implementation.
struct Emulation {
  RunArithmetic arithmetic = {};
  SumOrder order = SumOrder::sequential;
  /// A norm stores the normalized vector, then applies gain and bias, each stored (Llama). If false, all of it is in
  /// the format of the sums, and the result is stored (Gemma, LayerNorm).
  bool norm_stores_steps = true;
  bool fused = false;           ///< a product enters a running sum unrounded
  bool reciprocal = false;      ///< norms and softmax multiply by a rounded reciprocal instead of dividing
  bool stored_scalars = false;  ///< factors such as α or 1/√e are rounded to the stored format, not to that of sums
  bool chains = false;     ///< queries are scaled and stored before q·k (OPT), the tanh form of GELU stores each step
  std::uint64_t seed = 0;  ///< of shuffled orders
};

/// Receives the largest magnitudes inside ops, as the signals that the arithmetic of a run adds; infinite for NaN.
class Watch : public Interface {
 public:
  /// One magnitude per query head of `dots` and of attention's `cap_inputs`, one per feature of `gated`, else one.
  /// `parameter` is the op's matrix or gain, which says where in the stack it is; null for ops that have none.
  virtual void on_inner(const Tensor* parameter, Signal signal, std::span<const double> magnitudes) = 0;
};

}  // namespace periscope
