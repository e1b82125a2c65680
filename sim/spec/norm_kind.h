#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "sim/base/enumerators.h"

namespace periscope {

/// Kinds of norms. A part x [n] of a row becomes y = γ∘x̂ + b; norm_table defines x̂.
enum class NormKind {
  rms,
  layer,
  dyt,   ///< "Dynamic Tanh", arXiv 2503.10622
  derf,  ///< "Dynamic erf": like DyT, but with erf instead of tanh; no shift inside erf
  l2,    ///< unit length, as in nGPT
  none,  ///< only a per-channel scale, as in LayerScale; not allowed for model.norm
};

/// x̂ = (x − m)/s, or x̂ = φ(αx) for every entry separately. Plain data that kernels take by value.
struct NormFormula {
  /// s² = ε + mean of (x − m)², or s² = ε + sum of (x − m)²; `one` has no divisor, so x̂ = φ(αx).
  enum class Divisor { root_mean_square, length, one };
  enum class Phi { none, tanh, erf };

  bool subtracts_mean = false;  ///< m is the mean of x; otherwise m = 0
  Divisor divisor = Divisor::root_mean_square;
  Phi phi = Phi::none;  ///< φ; `none` means x̂ = x

  [[nodiscard]] constexpr bool is_pointwise() const { return divisor == Divisor::one; }
  /// False for combinations that no backend implements.
  [[nodiscard]] constexpr bool is_supported() const { return is_pointwise() ? !subtracts_mean : phi == Phi::none; }
  /// Returns the divisor of the sum of squares over n features.
  [[nodiscard]] constexpr double count(double n) const { return divisor == Divisor::length ? 1.0 : n; }
};

/// Properties of a norm. To add a kind, see CONTRIBUTING.md.
struct NormFacts {
  NormKind kind;
  std::string_view name;   ///< name in configurations
  std::string_view title;  ///< name in reports
  NormFormula formula;
  bool has_bias = false;  ///< has a learned bias b

  /// True if the norm has a learned α.
  [[nodiscard]] constexpr bool has_alpha() const { return formula.phi != NormFormula::Phi::none; }
};

inline constexpr std::array norm_table{
    NormFacts{.kind = NormKind::rms, .name = "rms", .title = "RMSNorm", .formula = {}},
    NormFacts{.kind = NormKind::layer,
              .name = "layer",
              .title = "LayerNorm",
              .formula = {.subtracts_mean = true},
              .has_bias = true},
    NormFacts{.kind = NormKind::dyt,
              .name = "dyt",
              .title = "DyT",
              .formula = {.divisor = NormFormula::Divisor::one, .phi = NormFormula::Phi::tanh},
              .has_bias = true},
    NormFacts{.kind = NormKind::derf,
              .name = "derf",
              .title = "Derf",
              .formula = {.divisor = NormFormula::Divisor::one, .phi = NormFormula::Phi::erf},
              .has_bias = true},
    NormFacts{
        .kind = NormKind::l2, .name = "l2", .title = "L2 norm", .formula = {.divisor = NormFormula::Divisor::length}},
    NormFacts{
        .kind = NormKind::none, .name = "none", .title = "scale", .formula = {.divisor = NormFormula::Divisor::one}},
};
static_assert(are_rows_of(norm_table, &NormFacts::kind), "one row per kind, in the order of NormKind");
static_assert(std::ranges::all_of(norm_table, &NormFormula::is_supported, &NormFacts::formula),
              "backends ignore phi if there is a divisor, and the mean if there is none");

[[nodiscard]] constexpr const NormFacts& facts_of(NormKind kind) { return norm_table[static_cast<std::size_t>(kind)]; }
[[nodiscard]] constexpr NormFormula formula_of(NormKind kind) { return facts_of(kind).formula; }
[[nodiscard]] constexpr bool subtracts_mean(NormKind kind) { return facts_of(kind).formula.subtracts_mean; }
/// True if every output entry of the norm depends on only one input entry.
[[nodiscard]] constexpr bool is_pointwise(NormKind kind) { return facts_of(kind).formula.is_pointwise(); }

/// Names allowed for model.norm: all in norm_table except the last.
inline constexpr auto norm_kind_names = [] {
  std::array<std::string_view, norm_table.size() - 1> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = norm_table[i].name;
  return names;
}();

}  // namespace periscope
