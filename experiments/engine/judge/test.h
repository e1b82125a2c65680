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

/// The outcome of a test, or the largest of several. inconclusive: not rejected, but the test could not have detected
/// an error as large as its limit (T22), or the prediction is too imprecise.
enum class Verdict { not_checked, agrees, inconclusive, disagrees };
inline constexpr std::array<std::string_view, 4> verdict_names{"not-checked", "agrees", "inconclusive", "disagrees"};
static_assert(are_names_of<Verdict>(verdict_names));
[[nodiscard]] constexpr std::string_view name_of(Verdict verdict) {
  return verdict_names[static_cast<std::size_t>(verdict)];
}

/// True for squared gradients, their logarithms and shares of them.
[[nodiscard]] bool is_gradient(Statistic statistic);

/// With fewer seeds the standard error itself is too noisy for a verdict.
inline constexpr int fewest_seeds = 4;

/// The probability with which a test rejects a prediction that is off by its detectable error (T22).
inline constexpr double wanted_power = 0.95;

/// Tolerated biases are of first order in 1/width, which is meaningless once half the variance of a logarithm is 1.
inline constexpr double largest_fluctuation = 2.0;

/// A number and its standard error.
struct Estimate {
  double value = 0.0;
  double error = 0.0;
};

/// Returns a number's variance over seeds, from the standard error of its mean.
inline double variance_of(const Estimate& mean, int seeds) { return seeds * mean.error * mean.error; }

/// A comparison of one measured number with its prediction (T19), and its verdict.
struct Test {
  Statistic statistic = Statistic::second_moment;
  Signal signal = Signal::x_out;
  std::optional<Weight> weight = {};  ///< of a weight's gradient, instead of a signal
  int index = 0;                      ///< as in Curve: depth, sublayer, or layer of a weight
  std::string contrast = {};          ///< "mlp mean": a sum over depth instead of one index (contrasts())
  std::string quantity = {};          ///< what is compared, if it is not `statistic`; power_of() groups by it
  std::string label = {};             ///< name(), if it does not follow from the above

  Estimate measured = {};
  Estimate predicted = {};
  double tolerated_bias = 0.0;  ///< by finite width and rounding, not counted against the prediction
  double scale = 1.0;           ///< of relative errors: |predicted|; 1 for cosines, shares and logarithms
  double limit = std::numeric_limits<double>::infinity();  ///< what the detectable error may be in an agreement
  int seeds = 0;                                           ///< number of seeds used for `measured`
  double measured_degrees = 0.0;                           ///< of freedom of `measured.error`; 0: seeds − 1
  int replicates = 0;                                      ///< number of replicates used for `predicted`
  bool precise = true;                  ///< whether the prediction has the standard error that was asked for
  double spread = 0.0;                  ///< predicted standard deviation of one seed's reading (T25); 0: not predicted
  int spread_degrees = 0;               ///< degrees of freedom of that
  bool replicates_given = false;        ///< theory.replicates, which does not follow the seeds
  std::string_view precision_key = {};  ///< key that makes the prediction more precise; "": that of its statistic
  /// For a gradient without a bound on its bias: the variance of a logarithm that is the reason, largest_fluctuation or
  /// more; 0 if the reason is the width.
  double fluctuation = 0.0;

  Verdict verdict = Verdict::not_checked;                       ///< this and all below: filled by judge()
  double critical = 0.0;                                        ///< excess above which the prediction is rejected
  double detectable = std::numeric_limits<double>::infinity();  ///< as detectable_at() at the level of the run
  std::string reason = {};                                      ///< why it is inconclusive or was not checked

  /// "second_moment x_out", "log_grad_sq q".
  [[nodiscard]] std::string curve_name() const;
  /// `label`, or else "second_moment x_out[3]" or "second_moment f_out mlp mean".
  [[nodiscard]] std::string name() const;
  /// (measured − predicted) in units of error(); 0 if both are exact and equal.
  [[nodiscard]] double z() const;
  /// Standard error of measured − predicted: √(s² + s_p²), or if theory predicts the spread, the larger of that and its
  /// value for the variance pooled over seeds and replicates. The own error is too small if a right-skewed quantity's
  /// mean is low, the pooled one if it is high.
  [[nodiscard]] double error() const;
  /// Degrees of freedom of Student's t: those of the pooled variance, else Welch–Satterthwaite. At least 1.
  [[nodiscard]] double degrees() const;
  /// The part of |measured − predicted| beyond the tolerated bias, in error()s. Infinite for an exact difference.
  [[nodiscard]] double excess() const;
  /// The smallest relative error of the prediction that a test of level `level` rejects with probability wanted_power
  /// (T22), (2·tolerated_bias + (t_level + t_power)·error)/scale. Infinite where the scale is 0 and the rest is not.
  [[nodiscard]] double detectable_at(double level) const;
  /// True if all of measured, predicted and tolerated bias are finite.
  [[nodiscard]] bool is_finite() const;
  [[nodiscard]] bool underpowered() const { return detectable > limit; }
};

/// True for a test, or a group of them, that disagrees.
inline constexpr auto disagrees = [](const auto& judged) { return judged.verdict == Verdict::disagrees; };

/// The excess at which a two-sided p-value of Student's t is `level`.
double critical_excess(double degrees, double level);
/// Šidák: the level of each of `tests` tests that together err with probability `familywise_error`.
double sidak_level(double familywise_error, std::size_t tests);
/// The largest number of rejections in `runs` runs, each with a chance of `error`, such that more have a chance below
/// 1 %: 3 of 64 at 1 %.
int allowed_rejections(int runs, double error);

/// "0.123", "NaN" or "inf".
std::string number_words(double x);
/// "0.12", or "any amount" for inf: a detectable error.
std::string error_words(double error);
/// "-0.492 ± 0.013", the error with two digits; "-" if the value is not finite.
std::string plus_minus(const Estimate& estimate);
/// x in a format such as "{:.3f}"; "-" for NaN.
std::string shown(double x, const char* format);

}  // namespace periscope::judge
