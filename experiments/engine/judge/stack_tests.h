#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/judge/test.h"
#include "experiments/engine/settings/config.h"
#include "sim/measure/probe.h"
#include "sim/spec/profile.h"
#include "theory/predict/predict.h"

namespace periscope::judge {

/// Measurements of a stack, averaged over seeds.
struct Measurement {
  Profile profile;
  int seeds = 0;
  int diverged_seeds = 0;
  int diverged_at = -1;  ///< first sublayer at which a seed diverged, or −1
  TopMagnitudes top = {};
  std::vector<Profile> per_seed = {};  ///< compared_part() of every seed; if empty, no contrasts are tested
};

/// A stack with its measurement and prediction.
struct Comparison {
  const StackSpec& spec;
  const Measurement& measured;
  DType dtype;
  const theory::Prediction& prediction;
  double rounding = 0.0;  ///< relative rounding error of forward statistics, in addition to rounding to dtype
};

/// Curves that verdicts compare: second moment, variance and token cosine of the stream (x_out), second moment and
/// token cosine of every module's output (f_out), and the second moment of ResiDual's second stream. For gradients:
/// log_grad_sq of the stream and (not listed here) of every matrix, and the score path's share in every attention.
inline constexpr std::array<std::pair<Statistic, Signal>, 8> compared_curves{{{Statistic::second_moment, Signal::x_out},
                                                                              {Statistic::variance, Signal::x_out},
                                                                              {Statistic::token_cosine, Signal::x_out},
                                                                              {Statistic::second_moment, Signal::f_out},
                                                                              {Statistic::token_cosine, Signal::f_out},
                                                                              {Statistic::second_moment, Signal::r_out},
                                                                              {Statistic::log_grad_sq, Signal::x_out},
                                                                              {Statistic::score_share, Signal::A_out}}};

/// Returns the curves of one seed's profile that verdicts compare. They are stored per seed, as contrasts need
/// correlations within a seed; all other curves are averaged (SeedAverage).
Profile compared_part(const Profile& profile);

/// Returns the limit on detectable errors of a statistic; grad_sq has the limit of log_grad_sq.
double limit_of(const config::PowerLimits& limits, Statistic statistic);

/// Returns a test of every measured number, with its tolerated bias. Without a prediction, the predicted value is NaN.
/// Forward statistics tolerate rounding, and WidthBias::of_signal (T19) unless the prediction is exact at the stack's
/// width (T25). Gradients tolerate WidthBias::of_log_gradient plus half the variance of the logarithm over seeds, the
/// bias of the mean logarithm of a log-normal variable. A share p tolerates p(1−p) times the bias of log(p/(1−p)). If
/// for any gradient this variance, or the variance of a mean over one pattern per head, is at least 2, all gradients of
/// the stack tolerate an infinite bias, which makes the verdict inconclusive. A gradient within the rounding error of
/// the backward pass (RoundingError) is compared without a logarithm, relative to the terms that cancel.
std::vector<Test> stack_tests(const Comparison& comparison, const config::AgreementOptions& options);

/// Lists the entries of log_grad_sq and score_share whose predictions do not meet theory.gradient_tolerance, one string
/// per curve, such as "log_grad_sq q[0-5]" or "score_share A_out[0, 2]".
std::vector<std::string> imprecise_names(const theory::Prediction& prediction);

/// Returns why the prediction is out of the range of dtype or double, or "". The reason is a scale of the specification
/// whose square is not a normal f64, or a predicted second moment that the dtype cannot represent.
std::string out_of_range(const StackSpec& spec, const Profile& predicted, DType dtype);

}  // namespace periscope::judge
