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

/// Scales that belong to a format with one scale per block (see Quantization).
enum class BlockScale {
  none,
  power_of_two,  ///< E8M0, as in the microscaling (MX) formats of the OCP specification
  e4m3,          ///< an FP8 E4M3 number times one binary32 scale of the tensor, as in NVFP4
};

/// A storage format: floating-point numbers, integers, or numbers with a scale for every block of a row.
struct TensorFormat {
  std::string_view name;
  NumberFormat floating = fp64;  ///< ignored for integer formats
  int largest_integer = 0;       ///< 2^(b−1) − 1 for integers of b bits: 127 or 7; 0 for floating-point formats
  BlockScale block_scale = BlockScale::none;
  int block = 32;  ///< default number of entries of a block

  [[nodiscard]] constexpr bool is_integer() const { return largest_integer > 0; }
  [[nodiscard]] constexpr bool has_block_scale() const { return block_scale != BlockScale::none; }
  /// Returns true for formats of at most 8 bits, for which operands are scaled into the format's range.
  [[nodiscard]] constexpr bool is_narrow() const { return is_integer() || floating.precision <= 4; }
};

/// The 4-bit format E2M1: ±0, 0.5, 1, 1.5, 2, 3, 4, 6. It is used only with block scales.
inline constexpr NumberFormat fp4_e2m1{"fp4_e2m1", 6.0, 2, 0};

/// The floating-point formats, INT8 and INT4, and the formats with block scales. The integer ranges are symmetric: −128
/// and −8 are not used.
inline constexpr auto tensor_formats = [] {
  std::array<TensorFormat, number_formats.size() + 6> all;
  auto* next = std::ranges::transform(number_formats, all.begin(), [](const NumberFormat& f) {
                 return TensorFormat{f.name, f};
               }).out;
  for (const TensorFormat& format : {TensorFormat{"int8", fp64, 127}, TensorFormat{"int4", fp64, 7},
                                     TensorFormat{"mxfp8_e5m2", fp8_e5m2, 0, BlockScale::power_of_two},
                                     TensorFormat{"mxfp8_e4m3", fp8_e4m3, 0, BlockScale::power_of_two},
                                     TensorFormat{"mxfp4", fp4_e2m1, 0, BlockScale::power_of_two},
                                     TensorFormat{"nvfp4", fp4_e2m1, 0, BlockScale::e4m3, 16}}) {
    *next++ = format;
  }
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
  block,  ///< Quantization::block consecutive entries of a row; the last block may be shorter
};
inline constexpr std::array<std::string_view, 4> scale_over_names{"none", "tensor", "row", "block"};
static_assert(are_names_of<ScaleOver>(scale_over_names));

/// A quantization of tensors. Entry x of a group with scale s becomes s·round(x/s), with M = max|x| over the group:
/// - floating-point with a scale: s is the smallest power of two with M ≤ s·largest, so that nothing overflows;
/// - integer: s = M/largest_integer, rounded to binary32 as in storage;
/// - BlockScale::power_of_two: s = 2^(⌊log₂ M⌋ − ⌊log₂ largest⌋), at least 2⁻¹²⁷ (OCP MX specification 1.0, §6.3);
/// - BlockScale::e4m3: s = t·r, with t = max|x| of the tensor/(448·largest) in binary32 and r = M/(largest·t) in E4M3
///   (NVFP4, arXiv 2509.25149, appendix C).
/// Rounding is to nearest with ties to even, or stochastic. Formats with block scales saturate. With a scale, all
/// entries of a group (of the tensor for BlockScale::e4m3) with an infinite or NaN entry become NaN, and a group of
/// zeros is unchanged.
struct Quantization {
  TensorFormat format;
  ScaleOver scale = ScaleOver::nothing;  ///< integers require a scale; formats with block scales ignore it
  Rounding::Overflow overflow = Rounding::Overflow::by_format;
  bool stochastic = false;
  int block = format.block;  ///< entries that share a block's scale

  [[nodiscard]] constexpr bool has_scale() const { return scale != ScaleOver::nothing || format.has_block_scale(); }
  [[nodiscard]] constexpr bool has_blocks() const { return scale == ScaleOver::block || format.has_block_scale(); }
  /// Returns true if quantization changes no binary32 number.
  [[nodiscard]] constexpr bool keeps_f32() const { return !format.is_integer() && format.floating.precision >= 24; }
};

}  // namespace periscope
