#pragma once

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"

namespace periscope::judge {

/// Laws of growth over depth d: a + b·d, a + b·d + c·d², a·e^(b·d).
enum class GrowthLaw { linear, quadratic, exponential };
inline constexpr std::array<std::string_view, 3> growth_law_names{"linear", "quadratic", "exponential"};
static_assert(are_names_of<GrowthLaw>(growth_law_names));
inline constexpr std::string_view no_growth_law = "no law fits";

/// The depth from which on laws are fitted: the steps from the embedding to the first sublayers' outputs are of another
/// kind (trained Pre-LN's first MLP alone lifts the variance a thousandfold), and would decide between the laws.
inline constexpr std::size_t first_fitted_depth = 2;

/// The largest root mean square of ln(value) − ln(law) at which a law still describes the values.
inline constexpr double largest_misfit = 0.1;

/// The fit of one law to positive values, by least squares of their logarithms.
struct DepthFit {
  static constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> parameters = {};  ///< a, b and c
  double rms_residual = none;           ///< root mean square of ln(value) − ln(law)
  double residual_deviation = none;  ///< the same over the points that the parameters leave over: √(Σ r² / (n − k))
  double criterion = none;           ///< see GrowthFit
};

/// Every law's fit, in the order of GrowthLaw. Neighbouring depths' residuals are alike, so n depths tell less than n
/// points would: with ρ the autocorrelation at lag one of the errors, as much as n_eff = n (1 − ρ) / (1 + ρ), ρ ≥ 0. A
/// fit takes part of the errors away, so its residuals are less alike than they are: with errors of 0.8 those of a
/// parabola over 23 depths show 0.38 on average. So ρ is the value for which the residuals of the closest law would be
/// expected to have the autocorrelation that they have, tr(MAMV) / tr(MV): V_ij = ρ^|i−j|, M projects the fit's
/// derivatives out, A takes the mean over neighbours. Laws are compared by QAICc (Burnham and Anderson 2002, section
/// 2.5), which is Akaike's criterion, corrected for few points, of a likelihood that counts them so: n_eff ln(rms²) +
/// 2k + 2k(k + 1)/(n − k − 1), where the residuals' size is one of the k parameters. It is −∞ for a law that is met
/// exactly.
struct GrowthFit {
  std::array<DepthFit, growth_law_names.size()> laws = {};
  double effective_points = DepthFit::none;
};

/// Fits values at depths 0, 1, …, from first_fitted_depth on. NaN everywhere for fewer than six fitted values, too few
/// for the correction, and if one of them is not positive and finite.
[[nodiscard]] GrowthFit fit_growth(const std::vector<double>& values);

/// The criterion by which a law must be better than another to be preferred to it.
inline constexpr double decisive_criterion = 2.0;

/// Returns the laws that are not `decisive_criterion` worse than the best: one, if the values decide. None if none of
/// them describes the values (`largest_misfit`).
[[nodiscard]] std::vector<GrowthLaw> likely_laws(const GrowthFit& fit);

/// "linear", "not decided between linear and quadratic", or no_growth_law.
[[nodiscard]] std::string likely_laws_in_words(const GrowthFit& fit);

}  // namespace periscope::judge
