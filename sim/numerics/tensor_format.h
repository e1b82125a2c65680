#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "sim/base/enumerators.h"
#include "sim/numerics/number_format.h"
#include "sim/numerics/rounding.h"

/// Formats that hold a tensor in few bits: as floating-point numbers, or as whole numbers with a scale.
namespace periscope {

/// A format in which tensors are held.
struct TensorFormat {
  std::string_view name;
  NumberFormat floating = fp64;  ///< unless it is whole
  int largest_integer = 0;       ///< 2^(b−1) − 1 of b bits: whole numbers −127 … 127 or −7 … 7; 0: floating

  [[nodiscard]] constexpr bool is_integer() const { return largest_integer > 0; }
  /// Formats of at most 8 bits, whose operands are scaled into their range.
  [[nodiscard]] constexpr bool is_narrow() const { return is_integer() || floating.precision <= 4; }
};

/// The floating formats and INT8 and INT4, symmetric: −128 and −8 are not used.
inline constexpr auto tensor_formats = [] {
  std::array<TensorFormat, number_formats.size() + 2> all;
  for (std::size_t i = 0; i < number_formats.size(); ++i) all[i] = {number_formats[i].name, number_formats[i]};
  all[number_formats.size()] = {"int8", fp64, 127};
  all[number_formats.size() + 1] = {"int4", fp64, 7};
  return all;
}();

[[nodiscard]] constexpr std::optional<TensorFormat> find_tensor_format(std::string_view name) {
  const auto* const found = std::ranges::find(tensor_formats, name, &TensorFormat::name);
  return found == tensor_formats.end() ? std::nullopt : std::optional(*found);
}

/// Says which entries share a scale. Rows are tokens of signals and output features of weights.
enum class ScaleOver {
  nothing,  ///< no scale
  tensor,
  row,
  block,  ///< of 32 entries of a row, from its first on; the last one may be shorter
};
inline constexpr std::array<std::string_view, 4> scale_over_names{"none", "tensor", "row", "block"};
static_assert(are_names_of<ScaleOver>(scale_over_names));
inline constexpr int block_length = 32;

/// A rounding of tensors. Entry x of a group with the scale s becomes s·round(x/s):
/// - floating with a scale: s is the least power of two with max|x| ≤ s·largest, so that nothing overflows;
/// - integer: s = max|x|/largest_integer, rounded to binary32 as it would be kept; the whole number is nearest, ties to
///   even.
/// A group with an entry that is not finite has no scale: all of it becomes not a number. A group of zeros stays.
struct Quantization {
  TensorFormat format;
  ScaleOver scale = ScaleOver::nothing;  ///< of an integer format not `nothing`
  Rounding::Overflow overflow = Rounding::Overflow::by_format;
  bool stochastic = false;

  /// True if every number of binary32 stays as it is.
  [[nodiscard]] constexpr bool keeps_f32() const { return !format.is_integer() && format.floating.precision >= 24; }
};

}  // namespace periscope
