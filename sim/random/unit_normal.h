#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>

/// Maps a 32-bit word to a standard normal number, bitwise identical on every device: it uses only bit operations and
/// IEEE binary32 arithmetic in a fixed order. Files that include this must be compiled with -ffp-contract=off.
namespace periscope {

/// Near-minimax fits, computed with 50 digits. Coefficients are rounded to binary32 one by one, refitting the rest.
struct UnitNormalTable {
  /// log2(1 + r) ≈ Σ logarithm[k] r^{k+1} for 1/√2 ≤ 1 + r ≤ √2; absolute error 5.4e-8.
  static constexpr std::array logarithm = {0x1.715472p+0F, -0x1.7155c6p-1F, 0x1.ec7a24p-2F, -0x1.70b5bp-2F,
                                           0x1.25ba02p-2F, -0x1.006f7ap-2F, 0x1.e33b68p-3F, -0x1.25dc2p-3F};
  /// f(w) = Φ⁻¹((1+x)/2)/x at x = √(1 − 2^{−w}) ≈ at_zero + w Σ factor[k] t^k with t = √(w + shift) − centre,
  /// for 0 ≤ w ≤ 31; relative error 1.3e-8.
  static constexpr float at_zero = 0x1.40d932p+0F;  // √(π/2)
  static constexpr float shift = 4.0F;
  static constexpr float centre = 0x1.faa10ep+1F;  // (√shift + √(31 + shift))/2
  static constexpr std::array factor = {
      0x1.bc7f48p-3F,  -0x1.f470fep-6F,  -0x1.62a816p-10F, 0x1.f07d22p-9F,   -0x1.f30f7cp-10F, 0x1.db68ecp-12F,
      0x1.b225acp-14F, -0x1.4d4508p-13F, 0x1.37ee3cp-14F,  -0x1.9a06acp-18F, -0x1.02973cp-16F, 0x1.167b78p-17F,
      0x1.256f0cp-22F, -0x1.784c72p-20F, 0x1.fe9612p-23F,  0x1.670198p-24F,  -0x1.7e83ap-26F};
};

/// Σ_i c[k+2i] t2^i. Compilers vectorise loops over these functions only if everything is inlined. Functions are
/// constexpr and coefficients are separate constants, so that device code may use them.
template <const auto& c, std::size_t k>
[[gnu::always_inline]] constexpr float every_second(float t2) {
  constexpr float coefficient = c[k];
  if constexpr (k + 2 < std::size(c)) {
    return std::fma(every_second<c, k + 2>(t2), t2, coefficient);
  } else {
    return coefficient;
  }
}

/// Σ_k c[k] t^k.
template <const auto& c>
[[gnu::always_inline]] constexpr float polynomial(float t) {
  const float t2 = t * t;
  return std::fma(every_second<c, 1>(t2), t, every_second<c, 0>(t2));
}

/// The top bit is the sign, the other bits are an integer m: z = ±Φ⁻¹(½ + ½x) for x = (m + ½)/2³¹. Words that differ
/// only in the top bit give opposite numbers, so all odd moments over the 2³² words are 0. No result is 0. The largest
/// is 6.3379577, with tail probability 2⁻³³. The second moment is 1 + 2.4e-9, the fourth 3 − 1.0e-8
/// (tests/random/normal_moments.cpp evaluates all words).
///
/// z = x·f(w), w = −log2(1 − x²). The largest relative error is 2.2e-7 (2.7 ulp). z increases with m, except for
/// rounding errors of at most 2 ulp.
template <class Table = UnitNormalTable>
[[gnu::always_inline]] constexpr float unit_normal(std::uint32_t word) {
  const auto m = static_cast<std::int32_t>(word & 0x7fffffffU);
  const float x = std::fma(static_cast<float>(m), 0x1p-31F, 0x1p-32F);
  const float complement = std::fma(static_cast<float>(0x7fffffff - m), 0x1p-31F, 0x1p-32F);  // 1 − x
  const float v = complement * (2.0F - complement);                                           // 1 − x²
  // v = 2^e (1 + r) with 1/√2 ≤ 1 + r < √2
  const auto bits = std::bit_cast<std::int32_t>(v);
  const std::int32_t e = (bits - 0x3f3504f3) >> 23;
  const float r = std::bit_cast<float>(bits - e * (1 << 23)) - 1.0F;
  const float w = std::fma(-r, polynomial<Table::logarithm>(r), -static_cast<float>(e));
  constexpr float shift = Table::shift;
  constexpr float centre = Table::centre;
  constexpr float at_zero = Table::at_zero;
  const float t = std::sqrt(w + shift) - centre;
  const float z = x * std::fma(w, polynomial<Table::factor>(t), at_zero);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(z) | (word & 0x80000000U));
}

}  // namespace periscope
