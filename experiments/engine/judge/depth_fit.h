#pragma once

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"

namespace periscope::judge {

/// Laws of growth over depth d: a + b·d, a + b·d + c·d², a·exp(b·d).
enum class GrowthLaw { linear, quadratic, exponential };
inline constexpr std::array<std::string_view, 3> growth_law_names{"linear", "quadratic", "exponential"};
static_assert(are_names_of<GrowthLaw>(growth_law_names));
inline constexpr std::string_view no_growth_law = "no law fits";

/// Smallest depth that is fitted. The first sublayers after the embedding behave differently (the first MLP of a
/// trained Pre-LN stack increases the variance a thousandfold) and would dominate the choice of the law.
inline constexpr std::size_t first_fitted_depth = 2;

/// Largest root mean square of ln(value) − ln(law) for which a law describes the values.
inline constexpr double largest_misfit = 0.1;

/// The fit of one law to positive values, by least squares of their logarithms.
struct DepthFit {
  static constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> parameters = {};  ///< a, b and, for the quadratic law, c
  double rms_residual = none;           ///< root mean square of r = ln(value) − ln(law)
  double residual_deviation = none;     ///< √(Σ r² / (n − p)) for n points and p parameters
  double criterion = none;              ///< QAICc, see GrowthFit
};

/// Fits of all laws, in the order of GrowthLaw, compared by QAICc (Burnham and Anderson 2002, section 2.5):
///   n_eff ln(rms²) + 2k + 2k(k + 1)/(n − k − 1),
/// where k counts the law's parameters and the variance of the residuals. It is −∞ for an exact fit. Residuals of
/// neighbouring depths are correlated, so n depths count as n_eff = n (1 − ρ) / (1 + ρ) independent points, where ρ ≥ 0
/// is the autocorrelation of the errors at lag 1. A fit removes part of the errors, which lowers the autocorrelation of
/// the residuals: with ρ = 0.8, residuals of a parabola over 23 depths show 0.38 on average. So ρ is chosen such that
/// the expected autocorrelation, tr(MAMV) / tr(MV), equals that of the closest law's residuals. Here V_ij = ρ^|i−j|, M
/// projects out the fit's derivatives, and A averages over neighbours.
struct GrowthFit {
  std::array<DepthFit, growth_law_names.size()> laws = {};
  double effective_points = DepthFit::none;
};

/// Fits values at depths 0, 1, …, starting at first_fitted_depth. Returns NaN everywhere if a fitted value is not
/// positive and finite, or for fewer than six fitted values, which are too few for the small-sample correction.
[[nodiscard]] GrowthFit fit_growth(const std::vector<double>& values);

/// Difference of criteria above which the better law is preferred.
inline constexpr double decisive_criterion = 2.0;

/// Returns the laws within `decisive_criterion` of the best law; empty if all misfits exceed `largest_misfit`.
[[nodiscard]] std::vector<GrowthLaw> likely_laws(const GrowthFit& fit);

/// Returns a phrase such as "linear" or "not decided between linear and quadratic", or no_growth_law.
[[nodiscard]] std::string likely_laws_in_words(const GrowthFit& fit);

}  // namespace periscope::judge
