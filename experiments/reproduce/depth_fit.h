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
  double rms_residual;             ///< root mean square of ln(value) − ln(law)
  double aicc;  ///< Akaike's criterion, corrected for few points; −∞ for a law that is met exactly
};

/// Every law's fit, in the order of GrowthLaw. NaN everywhere for fewer than six values, too few for the correction,
/// and if one is not positive and finite.
[[nodiscard]] std::array<DepthFit, 3> fit_growth(const std::vector<double>& values);

/// The law with the smallest AICc.
[[nodiscard]] GrowthLaw best_law(const std::array<DepthFit, 3>& fits);

}  // namespace periscope::reproduce
