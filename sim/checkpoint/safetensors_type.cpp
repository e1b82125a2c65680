#include "sim/checkpoint/safetensors_type.h"

#include <algorithm>
#include <array>

#include "sim/base/enumerators.h"

namespace periscope {
namespace {

struct Row {
  SafetensorsType type;
  std::string_view name;
  int bits;
};

constexpr std::array type_rows{
    Row{SafetensorsType::f64, "F64", 64},
    Row{SafetensorsType::f32, "F32", 32},
    Row{SafetensorsType::f16, "F16", 16},
    Row{SafetensorsType::bf16, "BF16", 16},
    Row{SafetensorsType::f8_e5m2, "F8_E5M2", 8},
    Row{SafetensorsType::f8_e4m3, "F8_E4M3", 8},
    Row{SafetensorsType::i64, "I64", 64},
    Row{SafetensorsType::i32, "I32", 32},
    Row{SafetensorsType::i16, "I16", 16},
    Row{SafetensorsType::i8, "I8", 8},
    Row{SafetensorsType::u64, "U64", 64},
    Row{SafetensorsType::u32, "U32", 32},
    Row{SafetensorsType::u16, "U16", 16},
    Row{SafetensorsType::u8, "U8", 8},
    Row{SafetensorsType::boolean, "BOOL", 8},
    Row{SafetensorsType::c64, "C64", 64},
    Row{SafetensorsType::f8_e8m0, "F8_E8M0", 8},
    Row{SafetensorsType::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    Row{SafetensorsType::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    Row{SafetensorsType::f6_e2m3, "F6_E2M3", 6},
    Row{SafetensorsType::f6_e3m2, "F6_E3M2", 6},
    Row{SafetensorsType::f4, "F4", 4},
};

static_assert(are_rows_of(type_rows, &Row::type), "one row per type, in the order of SafetensorsType");

const Row& row_of(SafetensorsType type) { return type_rows[static_cast<std::size_t>(type)]; }

}  // namespace

std::string name_of(SafetensorsType type) { return std::string(row_of(type).name); }

std::optional<SafetensorsType> safetensors_type(std::string_view name) {
  const auto found = std::ranges::find(type_rows, name, &Row::name);
  return found == type_rows.end() ? std::nullopt : std::optional(found->type);
}

std::string safetensors_type_names() {
  std::string all;
  for (const Row& row : type_rows) all.append(all.empty() ? "" : ", ").append(row.name);
  return all;
}

int bits_of(SafetensorsType type) { return row_of(type).bits; }

}  // namespace periscope
