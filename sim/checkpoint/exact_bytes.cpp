#include "sim/checkpoint/exact_bytes.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <unordered_map>

#include "sim/numerics/stored_bits.h"

namespace periscope {
namespace {

using Encoded = std::optional<std::vector<std::byte>>;

/// `encode` gives an element's bits, or nothing.
template <class Stored, class Encode>
Encoded encoded(std::span<const double> values, const Encode& encode) {
  std::vector<std::byte> bytes(values.size() * sizeof(Stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::optional<Stored> bits = encode(values[i]);
    if (!bits) return std::nullopt;
    std::memcpy(bytes.data() + i * sizeof(Stored), &*bits, sizeof(Stored));
  }
  return bytes;
}

/// A double that is a float, zeros with their sign; any NaN.
std::optional<float> as_float(double x) {
  if (std::isnan(x)) return std::numeric_limits<float>::quiet_NaN();
  if (std::isfinite(x) && std::abs(x) > static_cast<double>(std::numeric_limits<float>::max())) return std::nullopt;
  const auto narrow = static_cast<float>(x);
  return static_cast<double>(narrow) == x ? std::optional(narrow) : std::nullopt;
}

/// Looks a number up among all that the type has, as its one definition decodes them.
template <class Format>
Encoded looked_up(std::span<const double> values) {
  using Stored = typename Format::Stored;
  std::unordered_map<std::uint32_t, Stored> code_of;
  std::optional<Stored> not_a_number;
  for (std::uint32_t code = 0; code <= std::numeric_limits<Stored>::max(); ++code) {
    const float value = Format::decode(static_cast<Stored>(code));
    if (std::isnan(value)) {
      not_a_number = static_cast<Stored>(code);
    } else {
      code_of.emplace(std::bit_cast<std::uint32_t>(value), static_cast<Stored>(code));
    }
  }
  return encoded<Stored>(values, [&](double x) -> std::optional<Stored> {
    const std::optional<float> value = as_float(x);
    if (!value) return std::nullopt;
    if (std::isnan(*value)) return not_a_number;
    const auto found = code_of.find(std::bit_cast<std::uint32_t>(*value));
    return found == code_of.end() ? std::nullopt : std::optional(found->second);
  });
}

}  // namespace

std::optional<std::vector<std::byte>> exact_bytes(SafetensorsType type, std::span<const double> values) {
  switch (type) {
    case SafetensorsType::f64: return encoded<double>(values, [](double x) { return std::optional(x); });
    case SafetensorsType::f32: return encoded<float>(values, as_float);
    case SafetensorsType::f16: return looked_up<F16>(values);
    case SafetensorsType::bf16: return looked_up<Bf16>(values);
    case SafetensorsType::f8_e5m2: return looked_up<F8E5m2>(values);
    case SafetensorsType::f8_e4m3: return looked_up<F8E4m3>(values);
    default: throw std::logic_error("exact_bytes: no floating-point type");
  }
}

}  // namespace periscope
