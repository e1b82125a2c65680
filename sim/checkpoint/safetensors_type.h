#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/core/tensor.h"

namespace periscope {

/// The element types of the format, all of them, so that every valid file can be opened. Only those up to
/// `boolean` can be read as numbers; a tensor of another type is an *unsupported* one.
enum class SafetensorsType {
  f64,
  f32,
  f16,      ///< IEEE binary16
  bf16,     ///< the upper half of an f32
  f8_e5m2,  ///< IEEE-like: infinities and NaNs
  f8_e4m3,  ///< no infinity, NaN is 0x7f and 0xff, largest 448
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,  ///< one byte, 0 or 1
  c64,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f6_e2m3,
  f6_e3m2,
  f4,
};

/// The name in the file, such as "BF16".
[[nodiscard]] std::string name_of(SafetensorsType type);

/// The type of that name, or nothing.
[[nodiscard]] std::optional<SafetensorsType> safetensors_type(std::string_view name);

/// All names, separated by commas, for messages.
[[nodiscard]] std::string safetensors_type_names();

/// Returns the type in which tensors of a dtype are written: f64 as they are, narrower ones as f32.
[[nodiscard]] constexpr SafetensorsType written_type(DType dtype) {
  return dtype == DType::f64 ? SafetensorsType::f64 : SafetensorsType::f32;
}

/// Bits of one element: 4, 6, 8, 16, 32 or 64.
[[nodiscard]] int bits_of(SafetensorsType type);

}  // namespace periscope
