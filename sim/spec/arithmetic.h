#pragma once

#include <array>
#include <string_view>

#include "sim/spec/number_format.h"

namespace periscope {

/// In what arithmetic a stack runs (T24).
enum class Arithmetic {
  exact,  ///< real numbers, on the stored weights
  mixed,  ///< the result of every op is stored in the format; sums and norms accumulate in fp32, and so does softmax
  pure,   ///< all in the format: partial sums, x − mean and the squares in a norm too
};
inline constexpr std::array<std::string_view, 3> arithmetic_names{"exact", "mixed", "pure"};

/// An arithmetic and its formats: of what is stored, and of sums on their way.
struct RunArithmetic {
  Arithmetic kind = Arithmetic::exact;
  NumberFormat stored = fp64;
  NumberFormat accumulated = fp64;
};

/// `kind` with signals stored in `format`. Mixed arithmetic accumulates in fp32, or in the format if that is wider.
[[nodiscard]] constexpr RunArithmetic run_arithmetic(Arithmetic kind, const NumberFormat& format) {
  constexpr NumberFormat fp32 = number_formats[0];
  const bool wider = kind == Arithmetic::mixed && format.precision < fp32.precision;
  return {kind, format, wider ? fp32 : format};
}

}  // namespace periscope
