#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sim/spec/profile.h"

namespace periscope::judge {

/// inconclusive: not rejected, but the test could not have refused an error that is larger than it may be (T22), or
/// the prediction is too imprecise.
enum class Verdict { agrees, disagrees, inconclusive, not_checked };

[[nodiscard]] std::string_view name_of(Verdict verdict);

/// True for squared gradients, their logarithms and shares of them.
[[nodiscard]] bool is_gradient(Statistic statistic);

/// A verdict on fewer seeds than these would rest on a standard error that is hardly known.
inline constexpr int fewest_seeds = 4;

/// The probability with which an error is refused that a test counts as able to refuse (T22).
inline constexpr double wanted_power = 0.95;

/// Allowances are of first order in 1/width. Where half the variance of one logarithm is 1, that order says nothing.
inline constexpr double largest_fluctuation = 2.0;

/// One measured number beside its prediction (T19).
struct Cell {
  Statistic statistic = Statistic::second_moment;
  Signal signal = Signal::x_out;
  std::optional<Weight> weight = {};  ///< of a weight's gradient, instead of a signal
  int index = 0;                      ///< as in Curve: depth, sublayer, or layer of a weight
  std::string contrast = {};          ///< "mlp mean": a contrast over depth instead of one index (contrasts.h)
  double measured = 0.0;
  double measured_error = 0.0;
  double predicted = 0.0;
  double predicted_error = 0.0;
  double allowance = 0.0;  ///< finite-width term and rounding: what |measured − predicted| may be for free
  double scale = 1.0;      ///< what a relative error is relative to: |predicted|; 1 of cosines, shares and logarithms
  int seeds = 0;           ///< behind `measured`
  int replicates = 0;      ///< behind `predicted`
  bool precise = true;     ///< the prediction has the standard error that was wanted
  double spread = 0.0;     ///< T25: the standard deviation of one seed's reading that theory predicts; 0: it does not
  int spread_degrees = 0;  ///< degrees of freedom of that
  bool replicates_given = false;  ///< theory.replicates, which does not follow the seeds
  /// For a gradient without allowance: the variance of a logarithm, over seeds or over as many patterns as there are
  /// heads, that took it from all gradients of the stack, largest_fluctuation or more; 0 where it is the width.
  double fluctuation = 0.0;

  /// (measured − predicted) in units of error(), so that excess() is no more; 0 when both are exact and equal.
  [[nodiscard]] double z() const;
  /// "second_moment x_out[3]", "log_grad_sq q[3]" or "second_moment f_out mlp mean".
  [[nodiscard]] std::string name() const;
  /// Standard error of measured − predicted: √(s² + s_p²). Where theory predicts the spread, seeds and replicates are
  /// draws of one law if it is right, and this is the larger of that and its value for the variance pooled over both. A
  /// right-skewed quantity has a small spread where its mean is low, which the pooled one mends, and a large one where
  /// it is high, which the pooled one does not see: the larger of the two errs on neither side.
  [[nodiscard]] double error() const;
  /// Degrees of freedom of Student's t: those of the pooled variance, else Welch–Satterthwaite. At least 1.
  [[nodiscard]] double degrees() const;
  /// The part of |measured − predicted| beyond the allowance, in error()s. Infinite for an exact difference.
  [[nodiscard]] double excess() const;
  /// Two-sided p-value of the excess.
  [[nodiscard]] double p_value() const;
  /// T22: the smallest relative error of the prediction that a test of level `level` rejects with 95 % probability,
  /// (2·allowance + (t_level + t_0.95)·error)/scale. Infinite where the scale is 0 and the rest is not.
  [[nodiscard]] double smallest_rejected(double level) const;
  /// Numbers on both sides, so that there is something to compare.
  [[nodiscard]] bool is_finite() const;
};

/// "0.123", or "no number" of NaN and "beyond all numbers" of infinity.
std::string number_words(double x);

/// The excess at which a two-sided p-value of Student's t is `level`.
double critical_excess(double degrees, double level);
/// Šidák: the level of each of `tests` tests that together err with probability `familywise_error`.
double sidak_level(double familywise_error, std::size_t tests);
/// The largest number of rejections in `runs` runs, each with a chance of `error`, such that more have a chance below
/// 1 %: 3 of 64 at 1 %.
int allowed_rejections(int runs, double error);
/// +1 or −1, the sign of a mean over `seeds` seeds with this standard error, where Student's two-sided test shows one
/// at `level`; else 0.
int clear_sign(double mean, double standard_error, double seeds, double level);

}  // namespace periscope::judge
