#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "sim/checkpoint/file_error.h"
#include "sim/checkpoint/safetensors_view.h"
#include "sim/numerics/stored_bits.h"

namespace periscope {
namespace {

template <typename T>
struct Plain {
  using Stored = T;
  static T decode(T value) { return value; }
};

struct Boolean : Plain<std::uint8_t> {};

/// Names of the file and the tensor, for errors about elements that cannot be converted.
struct ElementSource {
  const std::string& path;
  const std::string& name;

  template <typename Value>
  [[nodiscard]] InputError unrepresentable(std::uint64_t index, Value value, const char* reason) const {
    return unsupported(path,
                       fmt::format("tensor {}: element {} is {}, which {}", in_quotes(name), index, value, reason));
  }
};

/// True if double represents the integer exactly: its bits from the first to the last 1 fit the significand.
template <typename Integer>
bool fits_double(Integer value) {
  auto magnitude = static_cast<std::uint64_t>(value);
  if constexpr (std::is_signed_v<Integer>) {
    if (value < 0) magnitude = 0 - magnitude;
  }
  return magnitude == 0 ||
         std::bit_width(magnitude) - std::countr_zero(magnitude) <= std::numeric_limits<double>::digits;
}

template <typename Format, typename Out>
void convert(const SafetensorsView& view, const ElementSource& source, std::uint64_t first, std::span<Out> out) {
  using Stored = typename Format::Stored;
  const std::byte* from = view.bytes.data() + first * sizeof(Stored);
  for (std::size_t i = 0; i < out.size(); ++i, from += sizeof(Stored)) {
    Stored stored;
    std::memcpy(&stored, from, sizeof(Stored));  // data may be unaligned
    if constexpr (std::is_same_v<Format, Boolean>) {
      if (stored > 1) {
        throw malformed(source.path, fmt::format("tensor {}: element {} is the boolean {}, expected 0 or 1",
                                                 in_quotes(source.name), first + i, stored));
      }
    }
    const auto value = Format::decode(stored);
    if constexpr (std::is_same_v<Out, double> && std::is_integral_v<decltype(value)> && sizeof(value) == 8) {
      if (!fits_double(value)) throw source.unrepresentable(first + i, value, "is not exactly representable as double");
    }
    out[i] = static_cast<Out>(value);
    if constexpr (std::is_same_v<Out, float> && sizeof(value) == 8 && !std::is_integral_v<decltype(value)>) {
      if (std::isinf(out[i]) && !std::isinf(value)) {
        throw source.unrepresentable(first + i, value, "is beyond the range of f32");
      }
    }
  }
}

}  // namespace

template <class Out>
void read_values(const SafetensorsView& view, const std::string& path, const std::string& name, std::uint64_t first,
                 std::span<Out> out) {
  const std::uint64_t all = count_of(view);
  if (first > all || out.size() > all - first) {
    throw std::out_of_range(fmt::format("tensor {}: {} elements from index {} requested, but the tensor has {}",
                                        in_quotes(name), out.size(), first, all));
  }
  const ElementSource source{path, name};
  switch (view.type) {
    case SafetensorsType::f64: return convert<Plain<double>>(view, source, first, out);
    case SafetensorsType::f32: return convert<Plain<float>>(view, source, first, out);
    case SafetensorsType::f16: return convert<F16>(view, source, first, out);
    case SafetensorsType::bf16: return convert<Bf16>(view, source, first, out);
    case SafetensorsType::f8_e5m2: return convert<F8E5m2>(view, source, first, out);
    case SafetensorsType::f8_e4m3: return convert<F8E4m3>(view, source, first, out);
    case SafetensorsType::i64: return convert<Plain<std::int64_t>>(view, source, first, out);
    case SafetensorsType::i32: return convert<Plain<std::int32_t>>(view, source, first, out);
    case SafetensorsType::i16: return convert<Plain<std::int16_t>>(view, source, first, out);
    case SafetensorsType::i8: return convert<Plain<std::int8_t>>(view, source, first, out);
    case SafetensorsType::u64: return convert<Plain<std::uint64_t>>(view, source, first, out);
    case SafetensorsType::u32: return convert<Plain<std::uint32_t>>(view, source, first, out);
    case SafetensorsType::u16: return convert<Plain<std::uint16_t>>(view, source, first, out);
    case SafetensorsType::u8: return convert<Plain<std::uint8_t>>(view, source, first, out);
    case SafetensorsType::boolean: return convert<Boolean>(view, source, first, out);
    default: break;
  }
  throw unsupported(path, fmt::format("tensor {} has the dtype {}, which cannot be read as numbers", in_quotes(name),
                                      name_of(view.type)));
}

template void read_values(const SafetensorsView&, const std::string&, const std::string&, std::uint64_t,
                          std::span<double>);
template void read_values(const SafetensorsView&, const std::string&, const std::string&, std::uint64_t,
                          std::span<float>);

}  // namespace periscope
