#pragma once

#include <vector>

#include "experiments/engine/judge/test.h"

namespace periscope::judge {

/// The fit of y_i = a·x_i^p to values with standard errors.
struct PowerLaw {
  double exponent = 0.0;
  double exponent_error = 0.0;  ///< half the interval in which χ² rises by at most 1; NaN if it has no end
  double amplitude = 0.0;
  double chi_squared = 0.0;   ///< at the best fit
  double significance = 0.0;  ///< √(χ²(a = 0) − χ²): how many standard errors y is away from nothing
};

/// Weighted least squares, a solved exactly for every p, p searched in [−4, 2]. Works on the values
/// themselves, not on logarithms, so that values near zero of either sign stay harmless.
PowerLaw fit_power_law(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& error);

/// The best a of y = a·x^p with this p, and χ² with it.
double amplitude_of(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& error,
                    double p);
double chi_squared_of(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& error,
                      double p);

/// The verdict on an exponent of the law that `fit` found in (x, y): it is rejected where its χ² exceeds the best one's
/// by more than critical². It is inconclusive where the exponents `next` beside it would not be rejected either.
Verdict verdict_on_exponent(const std::vector<double>& x, const std::vector<double>& y,
                            const std::vector<double>& error, const PowerLaw& fit, double exponent, double next,
                            double critical);

/// True if the exponents `next` beside `exponent` have a √Δχ² of `limit` or more, for values a·x^exponent with the best
/// a of (x, y) and standard errors `error`: a test of 95 % power needs its critical value and 1.64.
bool is_told_apart(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& error,
                   double exponent, double next, double limit);

}  // namespace periscope::judge
