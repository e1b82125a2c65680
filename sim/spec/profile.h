#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/enumerators.h"
#include "sim/spec/signal.h"
#include "sim/spec/weight.h"

namespace periscope {

/// Measured statistics: means over the T tokens unless stated otherwise.
enum class Statistic {
  second_moment,  ///< mean over features of x²
  variance,       ///< population variance over features (1/D)
  mean,           ///< mean over features
  kurtosis,       ///< m₄/m₂² of the centred features; 3 for a Gaussian
  maximum,        ///< largest |x| over all tokens and features
  token_cosine,   ///< cosine between two tokens, averaged over pairs of distinct tokens
  branch_ratio,   ///< for signal B_out: rms(beta·B_out)/rms(alpha·x_in)
  branch_cosine,  ///< for signal B_out: cosine between B_out and x_in
  grad_sq,        ///< sum of (∂loss/∂x)² over features; for a weight, over all its entries
  log_grad_sq,    ///< natural logarithm of grad_sq; its mean over seeds is robust to heavy tails
  score_share,    ///< for A_out of attention: S/(S+V); S: squared gradient through q and k, V: through v
};
/// Losses are in nats, squared gradients in nat². log_grad_sq, a natural logarithm, is also in nats.
struct StatisticFacts {
  std::string_view name, units;
};
inline constexpr std::array statistic_facts{
    StatisticFacts{"second_moment", "1"}, StatisticFacts{"variance", "1"},      StatisticFacts{"mean", "1"},
    StatisticFacts{"kurtosis", "1"},      StatisticFacts{"maximum", "1"},       StatisticFacts{"token_cosine", "1"},
    StatisticFacts{"branch_ratio", "1"},  StatisticFacts{"branch_cosine", "1"}, StatisticFacts{"grad_sq", "nat2"},
    StatisticFacts{"log_grad_sq", "nat"}, StatisticFacts{"score_share", "1"}};
inline constexpr auto statistic_names = [] {
  std::array<std::string_view, statistic_facts.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = statistic_facts[i].name;
  return names;
}();
static_assert(are_names_of<Statistic>(statistic_names));

[[nodiscard]] constexpr std::string_view name_of(Statistic statistic) {
  return statistic_facts[static_cast<std::size_t>(statistic)].name;
}
[[nodiscard]] constexpr std::string_view units_of(Statistic statistic) {
  return statistic_facts[static_cast<std::size_t>(statistic)].units;
}

/// Statistics of one row of features, measured by backends in one pass (sim/core/statistics.h).
inline constexpr std::array row_statistics{Statistic::second_moment, Statistic::variance, Statistic::mean,
                                           Statistic::kurtosis, Statistic::maximum};
[[nodiscard]] constexpr std::size_t row_statistic(Statistic statistic) {
  return static_cast<std::size_t>(std::ranges::find(row_statistics, statistic) - row_statistics.begin());
}

/// Where a statistic is measured: a signal or, for gradients, a weight matrix.
using CurvePlace = std::variant<Signal, Weight>;
[[nodiscard]] inline std::string_view name_of(const CurvePlace& place) {
  return std::visit([](auto at) { return name_of(at); }, place);
}

/// A statistic over depth. Curves of x_out and r_out have 2L+1 entries, entry 0 being the stack's input. Curves of
/// other signals have one entry per sublayer (2L), curves of matrices one per layer (L).
struct Curve {
  std::vector<double> value;
  std::vector<double> standard_error;
};

/// Measured or predicted statistics of one stack.
struct Profile {
  std::map<std::pair<Statistic, CurvePlace>, Curve> curves;
  /// Angular distance arccos(cos(x_i, x_j))/π of the stream at depths i and j, mean over tokens [2L+1, 2L+1].
  std::vector<double> angular_distance;

  [[nodiscard]] const Curve* find(Statistic statistic, CurvePlace place) const {
    const auto it = curves.find({statistic, place});
    return it == curves.end() ? nullptr : &it->second;
  }
  /// Returns a reference to entry `index` of a curve. Creates a missing curve with `length` NaN entries.
  double& entry(Statistic statistic, CurvePlace place, std::size_t length, int index) {
    std::vector<double>& values = curves[{statistic, place}].value;
    values.resize(length, std::numeric_limits<double>::quiet_NaN());
    return values[static_cast<std::size_t>(index)];
  }
};

}  // namespace periscope
