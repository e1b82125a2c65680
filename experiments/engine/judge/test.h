#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/enumerators.h"
#include "sim/spec/profile.h"

namespace periscope::judge {

/// Verdict of a test, in increasing order of precedence in joint verdicts. Inconclusive: not rejected, but the
/// detectable error exceeds its limit (T22) or the prediction is too imprecise.
enum class Verdict { not_checked, agrees, inconclusive, disagrees };
inline constexpr std::array<std::string_view, 4> verdict_names{"not-checked", "agrees", "inconclusive", "disagrees"};
static_assert(are_names_of<Verdict>(verdict_names));
[[nodiscard]] constexpr std::string_view name_of(Verdict verdict) {
  return verdict_names[static_cast<std::size_t>(verdict)];
}

/// Returns true for squared gradients, their logarithms and shares.
[[nodiscard]] bool is_gradient(Statistic statistic);

/// Minimum number of seeds for a verdict; with fewer seeds the standard error itself is too noisy.
inline constexpr int fewest_seeds = 4;

/// Power that defines the detectable error (T22): probability of rejecting a prediction with an error of this size.
inline constexpr double wanted_power = 0.95;

/// Largest variance of a logarithm for which its bias is bounded. Tolerated biases are of first order in 1/width, which
/// does not suffice for larger variances.
inline constexpr double largest_fluctuation = 2.0;

/// A value and its standard error.
struct Estimate {
  double value = 0.0;
  double error = 0.0;
};

/// Returns the variance over seeds, from the standard error of the mean.
inline double variance_of(const Estimate& mean, int seeds) { return seeds * mean.error * mean.error; }

/// Comparison of one measured number with its prediction (T19), and its verdict.
struct Test {
  Statistic statistic = Statistic::second_moment;
  Signal signal = Signal::x_out;
  std::optional<Weight> weight = {};  ///< set instead of `signal` for the gradient of a weight
  int index = 0;                      ///< index into the Curve: depth, sublayer, or layer of a weight
  std::string contrast = {};          ///< such as "mlp mean": a sum over depth instead of one index (contrasts())
  std::string quantity = {};          ///< the compared quantity, if it is not `statistic`; power_of() groups by it
  std::string label = {};             ///< replaces the default of name()

  Estimate measured = {};
  Estimate predicted = {};
  double tolerated_bias = 0.0;  ///< bias due to finite width and rounding, not counted against the prediction
  double scale = 1.0;           ///< scale of relative errors: |predicted|; 1 for cosines, shares and logarithms
  double limit = std::numeric_limits<double>::infinity();  ///< largest detectable error for a verdict "agrees"
  int seeds = 0;                                           ///< number of seeds used for `measured`
  double measured_degrees = 0.0;                           ///< degrees of freedom of `measured.error`; 0: seeds − 1
  int replicates = 0;                                      ///< number of replicates used for `predicted`
  bool precise = true;                                     ///< true if the prediction meets the requested tolerance
  double spread = 0.0;                  ///< predicted standard deviation over seeds (T25); 0: not predicted
  int spread_degrees = 0;               ///< degrees of freedom of `spread`
  bool replicates_given = false;        ///< the number of replicates was set and does not depend on seeds
  std::string_view precision_key = {};  ///< key that makes the prediction more precise; "": default of the statistic
  /// For a gradient with an infinite tolerated bias: the variance of the logarithm that caused it, at least
  /// largest_fluctuation; 0 if the width caused it.
  double fluctuation = 0.0;

  // Set by judge():
  Verdict verdict = Verdict::not_checked;
  double critical = 0.0;                                        ///< excess above which the prediction is rejected
  double detectable = std::numeric_limits<double>::infinity();  ///< detectable error at the significance level
  std::string reason = {};                                      ///< why it is inconclusive or was not checked

  /// Returns a name such as "second_moment x_out" or "log_grad_sq q".
  [[nodiscard]] std::string curve_name() const;
  /// Returns `label`, or else a name such as "second_moment x_out[3]" or "second_moment f_out mlp mean".
  [[nodiscard]] std::string name() const;
  /// Returns (measured − predicted) / error(); 0 if both are exact and equal.
  [[nodiscard]] double z() const;
  /// Returns the standard error of measured − predicted, √(s² + s_p²). If theory predicts the spread, returns the
  /// maximum of this and the error from the variance pooled over seeds and replicates. For a right-skewed quantity
  /// s is too small if the measured mean is low, and the pooled error is too small if it is high.
  [[nodiscard]] double error() const;
  /// Returns the degrees of freedom of error(), at least 1; without a pooled variance, by Welch–Satterthwaite.
  [[nodiscard]] double degrees() const;
  /// Returns (|measured − predicted| − tolerated bias) / error(), at least 0; infinity if only the divisor is 0.
  [[nodiscard]] double excess() const;
  /// Returns the smallest relative error of the prediction that a test at `level` rejects with probability wanted_power
  /// (T22): (2·tolerated_bias + (t_level + t_power)·error)/scale. Infinity if only the divisor is 0.
  [[nodiscard]] double detectable_at(double level) const;
  /// Returns true if measured value, predicted value and tolerated bias are finite.
  [[nodiscard]] bool is_finite() const;
  [[nodiscard]] bool underpowered() const { return detectable > limit; }
};

/// Returns true for a test, or a joint verdict, that disagrees.
inline constexpr auto disagrees = [](const auto& judged) { return judged.verdict == Verdict::disagrees; };

/// Returns the excess at which the two-sided p-value of Student's t is `level`.
double critical_excess(double degrees, double level);
/// Returns the level per test for a familywise error over `tests` tests (Šidák).
double sidak_level(double familywise_error, std::size_t tests);
/// Returns the smallest number of rejections in `runs` runs, each with probability `error`, that is exceeded with a
/// probability below 1 %: 3 in 64 runs at 1 %.
int allowed_rejections(int runs, double error);

/// Formats a number: "0.123", "NaN" or "inf".
std::string number_words(double x);
/// Formats a detectable error: "0.12" or "inf".
std::string error_words(double error);
/// Formats an estimate: "-0.492 ± 0.013", the error with two significant digits; "-" if the value is not finite.
std::string plus_minus(const Estimate& estimate);
/// Formats x with a format such as "{:.3f}"; "-" for NaN.
std::string number_or_dash(double x, const char* format);

}  // namespace periscope::judge
