#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "sim/base/enumerators.h"

namespace periscope {

/// The norms. A part x [n] of a row becomes y = γ∘x̂ + b; what x̂ is, the row of norm_table says.
enum class NormKind {
  rms,
  layer,
  dyt,   ///< "Dynamic Tanh", arXiv 2503.10622
  derf,  ///< "Dynamic erf", the same with the error function and no shift inside it
  l2,    ///< unit length, as in nGPT
  none,  ///< a scale for every channel, as LayerScale; not a choice of model.norm
};

/// x̂ = (x − m)/s, or φ(αx) of every entry by itself; as numbers that kernels take by value.
struct NormFormula {
  /// s² = ε + mean of (x − m)², or + their sum; or there is none, and x̂ = φ(αx).
  enum class Divisor { root_mean_square, length, one };
  enum class Phi { none, tanh, erf };

  bool subtracts_mean = false;  ///< m = mean of x; else 0
  Divisor divisor = Divisor::root_mean_square;
  Phi phi = Phi::none;  ///< φ; for `none` x̂ = x

  [[nodiscard]] constexpr bool is_pointwise() const { return divisor == Divisor::one; }
  /// False for combinations that no backend computes.
  [[nodiscard]] constexpr bool is_computed() const { return is_pointwise() ? !subtracts_mean : phi == Phi::none; }
  /// What the sum of squares of a part of n features is divided by.
  [[nodiscard]] constexpr double count(double n) const { return divisor == Divisor::length ? 1.0 : n; }
};

/// Facts about a norm that everybody may ask for. Adding a kind: see CONTRIBUTING.md.
struct NormFacts {
  NormKind kind;
  std::string_view name;   ///< in configurations
  std::string_view title;  ///< for people
  NormFormula formula;
  bool has_bias = false;  ///< it has a learned b; others add none

  /// α is a learned number of every norm.
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
static_assert(std::ranges::all_of(norm_table, &NormFormula::is_computed, &NormFacts::formula),
              "backends divide or bend: they would ignore a bend with a divisor, or a mean without one");

[[nodiscard]] constexpr const NormFacts& facts_of(NormKind kind) { return norm_table[static_cast<std::size_t>(kind)]; }
[[nodiscard]] constexpr NormFormula formula_of(NormKind kind) { return facts_of(kind).formula; }
[[nodiscard]] constexpr bool subtracts_mean(NormKind kind) { return facts_of(kind).formula.subtracts_mean; }
/// True if every entry of a norm's result depends on one entry of its input.
[[nodiscard]] constexpr bool is_pointwise(NormKind kind) { return facts_of(kind).formula.is_pointwise(); }

/// The names that model.norm may have: all but the last.
inline constexpr auto norm_kind_names = [] {
  std::array<std::string_view, norm_table.size() - 1> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = norm_table[i].name;
  return names;
}();

}  // namespace periscope
