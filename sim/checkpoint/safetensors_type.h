#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/enumerators.h"
#include "sim/core/tensor.h"

namespace periscope {

/// All element types of the format. Types up to `boolean` can be read as numbers; the others are unsupported.
enum class SafetensorsType {
  f64,
  f32,
  f16,      ///< IEEE binary16
  bf16,     ///< the upper half of an f32
  f8_e5m2,  ///< IEEE-like, with infinities and NaNs
  f8_e4m3,  ///< no infinities; NaN is 0x7f and 0xff; largest value 448
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

struct SafetensorsTypeInfo {
  SafetensorsType type;
  std::string_view name;  ///< name in files
  int bits;               ///< bits per element
};
inline constexpr std::array safetensors_types{
    SafetensorsTypeInfo{SafetensorsType::f64, "F64", 64},
    SafetensorsTypeInfo{SafetensorsType::f32, "F32", 32},
    SafetensorsTypeInfo{SafetensorsType::f16, "F16", 16},
    SafetensorsTypeInfo{SafetensorsType::bf16, "BF16", 16},
    SafetensorsTypeInfo{SafetensorsType::f8_e5m2, "F8_E5M2", 8},
    SafetensorsTypeInfo{SafetensorsType::f8_e4m3, "F8_E4M3", 8},
    SafetensorsTypeInfo{SafetensorsType::i64, "I64", 64},
    SafetensorsTypeInfo{SafetensorsType::i32, "I32", 32},
    SafetensorsTypeInfo{SafetensorsType::i16, "I16", 16},
    SafetensorsTypeInfo{SafetensorsType::i8, "I8", 8},
    SafetensorsTypeInfo{SafetensorsType::u64, "U64", 64},
    SafetensorsTypeInfo{SafetensorsType::u32, "U32", 32},
    SafetensorsTypeInfo{SafetensorsType::u16, "U16", 16},
    SafetensorsTypeInfo{SafetensorsType::u8, "U8", 8},
    SafetensorsTypeInfo{SafetensorsType::boolean, "BOOL", 8},
    SafetensorsTypeInfo{SafetensorsType::c64, "C64", 64},
    SafetensorsTypeInfo{SafetensorsType::f8_e8m0, "F8_E8M0", 8},
    SafetensorsTypeInfo{SafetensorsType::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    SafetensorsTypeInfo{SafetensorsType::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    SafetensorsTypeInfo{SafetensorsType::f6_e2m3, "F6_E2M3", 6},
    SafetensorsTypeInfo{SafetensorsType::f6_e3m2, "F6_E3M2", 6},
    SafetensorsTypeInfo{SafetensorsType::f4, "F4", 4},
};
static_assert(are_rows_of(safetensors_types, &SafetensorsTypeInfo::type), "in the order of SafetensorsType");

[[nodiscard]] inline std::string name_of(SafetensorsType type) {
  return std::string(safetensors_types[static_cast<std::size_t>(type)].name);
}
[[nodiscard]] constexpr std::optional<SafetensorsType> safetensors_type(std::string_view name) {
  const auto* const found = std::ranges::find(safetensors_types, name, &SafetensorsTypeInfo::name);
  return found == safetensors_types.end() ? std::nullopt : std::optional(found->type);
}
/// Returns all names, separated by commas.
[[nodiscard]] inline std::string safetensors_type_names() {
  std::string all;
  for (const SafetensorsTypeInfo& row : safetensors_types) all.append(all.empty() ? "" : ", ").append(row.name);
  return all;
}
[[nodiscard]] constexpr int bits_of(SafetensorsType type) {
  return safetensors_types[static_cast<std::size_t>(type)].bits;
}

/// Element type in files for tensors of a dtype; 16-bit dtypes are written as f32.
[[nodiscard]] constexpr SafetensorsType written_type(DType dtype) {
  return dtype == DType::f64 ? SafetensorsType::f64 : SafetensorsType::f32;
}

}  // namespace periscope
