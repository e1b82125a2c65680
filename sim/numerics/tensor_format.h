#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "sim/base/enumerators.h"
#include "sim/numerics/number_format.h"
#include "sim/numerics/rounding.h"

/// Quantization formats of tensors: floating-point numbers, or integers with a scale.
namespace periscope {

/// A floating-point or integer storage format.
struct TensorFormat {
  std::string_view name;
  NumberFormat floating = fp64;  ///< ignored for integer formats
  int largest_integer = 0;       ///< 2^(b−1) − 1 for integers of b bits: 127 or 7; 0 for floating-point formats

  [[nodiscard]] constexpr bool is_integer() const { return largest_integer > 0; }
  /// Returns true for formats of at most 8 bits, for which operands are scaled into the format's range.
  [[nodiscard]] constexpr bool is_narrow() const { return is_integer() || floating.precision <= 4; }
};

/// The floating-point formats, INT8 and INT4. The integer ranges are symmetric: −128 and −8 are not used.
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

/// The group of entries that share a scale. A row is a token of a signal or an output feature of a weight.
enum class ScaleOver {
  nothing,  ///< no scale
  tensor,
  row,
  block,  ///< block_length consecutive entries of a row; the last block may be shorter
};
inline constexpr std::array<std::string_view, 4> scale_over_names{"none", "tensor", "row", "block"};
static_assert(are_names_of<ScaleOver>(scale_over_names));
inline constexpr int block_length = 32;

/// A quantization of tensors. Entry x of a group with scale s becomes s·round(x/s):
/// - floating-point with a scale: s is the smallest power of two with max|x| ≤ s·largest, so that nothing overflows;
/// - integer: s = max|x|/largest_integer, rounded to binary32 as in storage.
/// Rounding is to nearest with ties to even, or stochastic. With a scale, all entries of a group with an infinite or
/// NaN entry become NaN, and a group of zeros is unchanged.
struct Quantization {
  TensorFormat format;
  ScaleOver scale = ScaleOver::nothing;  ///< integer formats require a scale
  Rounding::Overflow overflow = Rounding::Overflow::by_format;
  bool stochastic = false;

  /// Returns true if quantization changes no binary32 number.
  [[nodiscard]] constexpr bool keeps_f32() const { return !format.is_integer() && format.floating.precision >= 24; }
};

}  // namespace periscope
