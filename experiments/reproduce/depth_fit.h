#pragma once

#include <array>
#include <string_view>
#include <vector>

namespace periscope::reproduce {

/// Laws of growth over depth d = 0, 1, …: a + b·d, a + b·d + c·d², a·e^(b·d).
enum class GrowthLaw { linear, quadratic, exponential };
inline constexpr std::array<std::string_view, 3> growth_law_names{"linear", "quadratic", "exponential"};

/// The fit of one law to positive values, by least squares of their logarithms.
struct DepthFit {
  std::vector<double> parameters;  ///< a, b and c
  double spread;                   ///< root mean square of ln(value) − ln(law)
  double criterion;                ///< Akaike's, corrected for few points; infinite for a law that cannot be fitted
};

/// Every law's fit, in the order of GrowthLaw. NaN everywhere for fewer than six values, too few for the criterion, and
/// if one is not positive and finite.
[[nodiscard]] std::array<DepthFit, 3> fit_growth(const std::vector<double>& values);

/// The law with the smallest criterion.
[[nodiscard]] GrowthLaw best_law(const std::array<DepthFit, 3>& fits);

}  // namespace periscope::reproduce
