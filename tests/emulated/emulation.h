#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/base/enumerators.h"
#include "sim/numerics/number_format.h"

namespace periscope {

/// The order in which the terms of a sum are added. A certificate holds for every order.
enum class SumOrder {
  sequential,
  reversed,
  pairwise,         ///< halves of halves
  lanes,            ///< four running sums side by side, then their sum
  shuffled,         ///< another random order for every sum
  positives_first,  ///< makes the partial sums as large as any order can
  negatives_first,
  small_first,
  large_first,
};
inline constexpr std::array<std::string_view, 9> sum_order_names{"sequential",      "reversed",    "pairwise",
                                                                 "lanes",           "shuffled",    "positives-first",
                                                                 "negatives-first", "small-first", "large-first"};
static_assert(are_names_of<SumOrder>(sum_order_names));

/// The forms in which implementations compute a norm.
enum class NormForm {
  stored_then_gain,  ///< the normalised vector is stored before gain and bias are applied, each stored (Llama)
  accumulated,       ///< gain and bias too in the format of the sums, then stored (Gemma, LayerNorm)
};
inline constexpr std::array<std::string_view, 2> norm_form_names{"stored-then-gain", "accumulated"};
static_assert(are_names_of<NormForm>(norm_form_names));

/// An arithmetic, and a choice of all that it leaves to the implementation.
struct Emulation {
  RunArithmetic arithmetic;
  SumOrder order = SumOrder::sequential;
  NormForm norm = NormForm::stored_then_gain;
  bool fused = false;           ///< a product enters a running sum unrounded
  bool reciprocal = false;      ///< norms and softmax multiply by a rounded reciprocal instead of dividing
  bool stored_scalars = false;  ///< factors such as α or 1/√e are rounded to the stored format, not to that of sums
  bool chains = false;     ///< queries are scaled and stored before q·k (OPT), the tanh form of GELU stores each step
  std::uint64_t seed = 0;  ///< of shuffled orders
};

}  // namespace periscope
