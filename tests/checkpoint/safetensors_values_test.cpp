#include <cmath>
#include <limits>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/checkpoint/safetensors_view.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Definition of a binary format: sign, exponent, mantissa.
struct Definition {
  SafetensorsType type;
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  ///< if false, only the all-ones pattern is NaN
};

double by_definition(const Definition& format, unsigned bits) {
  const unsigned mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const unsigned exponent = (bits >> format.mantissa_bits) & ((1U << format.exponent_bits) - 1);
  const double sign = ((bits >> (format.mantissa_bits + format.exponent_bits)) & 1U) != 0 ? -1.0 : 1.0;
  const unsigned highest = (1U << format.exponent_bits) - 1;
  const unsigned all_ones = (1U << format.mantissa_bits) - 1;
  if (exponent == highest && format.has_infinity) return mantissa == 0 ? sign * infinity : nan;
  if (exponent == highest && mantissa == all_ones) return nan;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double whole = exponent == 0 ? 0.0 : std::ldexp(1.0, format.mantissa_bits);
  const int power = std::max<int>(static_cast<int>(exponent), 1) - bias - format.mantissa_bits;
  return sign * std::ldexp(whole + mantissa, power);
}

/// Returns true for equal numbers with equal signs and for two NaNs.
template <typename A, typename B>
bool same(A a, B b) {
  return (std::isnan(a) && std::isnan(b)) ||
         (static_cast<double>(a) == static_cast<double>(b) && std::signbit(a) == std::signbit(b));
}

SafetensorsView view_of(SafetensorsType type, const std::string& bytes) {
  return {type, {static_cast<std::int64_t>(bytes.size() * 8) / bits_of(type)}, bytes_of(bytes)};
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::vector<T> read(const SafetensorsView& view) {
  std::vector<T> out(count_of(view));
  read_values(view, "file", "t", 0, std::span(out));
  return out;
}

TEST_CASE("every bit pattern of small formats is read as the value that the format defines") {
  const std::vector<Definition> formats{{SafetensorsType::f16, 5, 10, true},
                                        {SafetensorsType::bf16, 8, 7, true},
                                        {SafetensorsType::f8_e5m2, 5, 2, true},
                                        {SafetensorsType::f8_e4m3, 4, 3, false}};
  for (const Definition& format : formats) {
    CAPTURE(name_of(format.type));
    const int bytes = bits_of(format.type) / 8;
    const unsigned patterns = 1U << bits_of(format.type);
    std::string all;
    for (unsigned bits = 0; bits < patterns; ++bits) {
      for (int i = 0; i < bytes; ++i) all += static_cast<char>((bits >> (8 * i)) & 0xff);
    }
    const SafetensorsView view = view_of(format.type, all);
    REQUIRE(count_of(view) == patterns);
    const std::vector<double> wide = read<double>(view);
    const std::vector<float> narrow = read<float>(view);
    unsigned different = 0;
    for (unsigned bits = 0; bits < patterns; ++bits) {
      const double expected = by_definition(format, bits);
      if (!same(wide[bits], expected) || !same(narrow[bits], expected)) ++different;
    }
    CHECK(different == 0);
  }
}

TEST_CASE("f64 and f32 values, including NaN and inf, are read unchanged") {
  const std::vector<double> f64{0.1, -0.0, 1e300, 5e-324, infinity, -infinity, nan};
  const std::vector<double> wide = read<double>(view_of(SafetensorsType::f64, raw(f64)));
  const std::vector<float> f32{0.1F, -0.0F, 3.4e38F, 1e-45F, HUGE_VALF, std::numeric_limits<float>::quiet_NaN()};
  const std::vector<double> from_f32 = read<double>(view_of(SafetensorsType::f32, raw(f32)));
  const std::vector<float> same_f32 = read<float>(view_of(SafetensorsType::f32, raw(f32)));
  for (std::size_t i = 0; i < f64.size(); ++i) CHECK(same(wide[i], f64[i]));
  for (std::size_t i = 0; i < f32.size(); ++i) CHECK((same(from_f32[i], f32[i]) && same(same_f32[i], f32[i])));
}

TEST_CASE("f64 is rounded to the nearest float and rejected beyond the range of float") {
  const std::string good = raw<double>({0.1, 1e-60, infinity, -3.4e38, nan});
  const std::vector<float> values = read<float>(view_of(SafetensorsType::f64, good));
  CHECK(values[0] == 0.1F);
  CHECK(values[1] == 0.0F);
  CHECK(values[2] == HUGE_VALF);
  CHECK(values[3] == -3.4e38F);
  CHECK(std::isnan(values[4]));
  const std::string bad = raw<double>({1.0, -1e39});
  CHECK_THROWS_WITH_AS(static_cast<void>(read<float>(view_of(SafetensorsType::f64, bad))),
                       doctest::Contains("tensor \"t\": element 1"), InputError);
}

template <typename T>
void check_integers(SafetensorsType type) {
  CAPTURE(name_of(type));
  using Limits = std::numeric_limits<T>;
  std::vector<T> values{0, 1, 2, 100, Limits::min(), Limits::max()};
  if constexpr (sizeof(T) == 8) values.back() = T{1} << 53;  // integers up to 2^53 are exact in double
  const std::string bytes = raw(values);
  const SafetensorsView view = view_of(type, bytes);
  const auto wide = read<double>(view);
  const auto narrow = read<float>(view);
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(wide[i] == static_cast<double>(values[i]));
    CHECK(narrow[i] == static_cast<float>(values[i]));
  }
}

TEST_CASE("integers are read exactly, including the ends of their ranges") {
  check_integers<std::int64_t>(SafetensorsType::i64);
  check_integers<std::int32_t>(SafetensorsType::i32);
  check_integers<std::int16_t>(SafetensorsType::i16);
  check_integers<std::int8_t>(SafetensorsType::i8);
  check_integers<std::uint64_t>(SafetensorsType::u64);
  check_integers<std::uint32_t>(SafetensorsType::u32);
  check_integers<std::uint16_t>(SafetensorsType::u16);
  check_integers<std::uint8_t>(SafetensorsType::u8);
}

TEST_CASE("integers without an exact double are rejected") {
  const std::int64_t limit = std::int64_t{1} << 53;
  const std::string good = raw<std::int64_t>({limit + 2, -limit - 2, std::int64_t{3} << 60});
  CHECK(read<double>(view_of(SafetensorsType::i64, good)) == std::vector<double>{0x1p53 + 2, -0x1p53 - 2, 3 * 0x1p60});
  for (const std::int64_t value : {limit + 1, -limit - 1, std::numeric_limits<std::int64_t>::max()}) {
    const std::string bytes = raw<std::int64_t>({value});
    CHECK_THROWS_WITH_AS(static_cast<void>(read<double>(view_of(SafetensorsType::i64, bytes))),
                         doctest::Contains("tensor \"t\""), InputError);
  }
  const std::string large = raw<std::uint64_t>({std::uint64_t{1} << 63});
  CHECK(read<double>(view_of(SafetensorsType::u64, large)).at(0) == 0x1p63);
}

TEST_CASE("a boolean other than 0 or 1 is rejected") {
  const std::string good("\x00\x01", 2);
  CHECK(read<double>(view_of(SafetensorsType::boolean, good)) == std::vector<double>{0.0, 1.0});
  const std::string bad("\x01\x02", 2);
  CHECK_THROWS_WITH_AS(static_cast<void>(read<float>(view_of(SafetensorsType::boolean, bad))),
                       doctest::Contains("tensor \"t\": element 1"), InputError);
}

TEST_CASE("the rejection of an unsupported type names the type") {
  const std::string bytes(24, '\x01');
  for (const auto type :
       {SafetensorsType::c64, SafetensorsType::f8_e8m0, SafetensorsType::f8_e4m3fnuz, SafetensorsType::f8_e5m2fnuz,
        SafetensorsType::f6_e2m3, SafetensorsType::f6_e3m2, SafetensorsType::f4}) {
    const std::string message = "unsupported: file: tensor \"t\" has the dtype " + name_of(type);
    CHECK_THROWS_WITH_AS(static_cast<void>(read<double>(view_of(type, bytes))), doctest::Contains(message.c_str()),
                         InputError);
  }
}

TEST_CASE("parts of tensors are read at any alignment") {
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const std::vector<double> numbers{1.5, -2.5, 3.5, 4.5};
    const std::string bytes = std::string(shift, 'x') + raw(numbers);
    const SafetensorsView view{SafetensorsType::f64, {2, 2}, bytes_of(bytes).subspan(shift)};
    std::vector<double> out(2);
    read_values(view, "file", "t", 1, std::span(out));
    CHECK(out == std::vector<double>{-2.5, 3.5});
    read_values(view, "file", "t", 4, std::span<double>());
    CHECK_THROWS_AS(read_values(view, "file", "t", 3, std::span(out)), std::out_of_range);
    CHECK_THROWS_AS(read_values(view, "file", "t", ~0ULL, std::span(out)), std::out_of_range);
  }
}

}  // namespace
}  // namespace periscope::testing
