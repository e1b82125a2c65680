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

/// The measured statistics, means over the T tokens unless stated otherwise.
enum class Statistic {
  second_moment,  ///< mean over features of x²
  variance,       ///< population variance over features (1/D)
  mean,           ///< mean over features
  kurtosis,       ///< m₄/m₂² of the centred features (3 for a Gaussian)
  maximum,        ///< largest |x| of all tokens and features
  token_cosine,   ///< cosine of two tokens, mean over the pairs of distinct tokens
  branch_ratio,   ///< rms(beta·B_out)/rms(alpha·x_in): the dilution of the branch (signal B_out)
  branch_cosine,  ///< cosine of B_out and x_in (signal B_out)
  grad_sq,        ///< sum over features of (∂loss/∂x)²; of a weight: of all its entries
  log_grad_sq,    ///< natural logarithm of grad_sq: its mean over seeds is robust to heavy tails
  score_share,    ///< S/(S+V): S is ‖gradient through queries and keys‖², V through values (A_out, attention)
};
/// The loss is in nat, its squared gradient in nat², a natural logarithm in nat.
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

/// Statistics of one row of features, which backends measure in one pass (sim/core/statistics.h).
inline constexpr std::array row_statistics{Statistic::second_moment, Statistic::variance, Statistic::mean,
                                           Statistic::kurtosis, Statistic::maximum};
[[nodiscard]] constexpr std::size_t row_statistic(Statistic statistic) {
  return static_cast<std::size_t>(std::ranges::find(row_statistics, statistic) - row_statistics.begin());
}

/// Where a statistic is measured: at a signal or, for gradients, at a matrix q … down.
using CurvePlace = std::variant<Signal, Weight>;
[[nodiscard]] inline std::string_view name_of(const CurvePlace& place) {
  return std::visit([](auto at) { return name_of(at); }, place);
}

/// A statistic over depth. x_out and r_out have 2L+1 entries, entry 0 being the stack's input; of other signals entry i
/// belongs to sublayer i of 2L, of a matrix to layer i of L.
struct Curve {
  std::vector<double> value;
  std::vector<double> standard_error;
};

/// The measured or predicted statistics of one stack.
struct Profile {
  std::map<std::pair<Statistic, CurvePlace>, Curve> curves;
  /// Angular distance arccos(cos(x_i, x_j))/π between the stream at depths i and j, mean over tokens;
  /// row-major, (2L+1)².
  std::vector<double> angular_distance;

  [[nodiscard]] const Curve* find(Statistic statistic, CurvePlace place) const {
    const auto it = curves.find({statistic, place});
    return it == curves.end() ? nullptr : &it->second;
  }
  /// Returns entry `index` of a curve, which is created with `length` NaN entries.
  double& entry(Statistic statistic, CurvePlace place, std::size_t length, int index) {
    std::vector<double>& values = curves[{statistic, place}].value;
    values.resize(length, std::numeric_limits<double>::quiet_NaN());
    return values[static_cast<std::size_t>(index)];
  }
};

}  // namespace periscope
