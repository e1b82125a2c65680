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

/// Measurement of a stack, averaged over seeds.
struct Measurement {
  Profile profile;
  int seeds = 0;
  int diverged_seeds = 0;
  int diverged_at = -1;  ///< earliest sublayer, or −1
  TopMagnitudes top = {};
  std::vector<Profile> per_seed = {};  ///< compared_part() of every seed; empty: no contrasts are tested
};

/// A stack, measured and predicted.
struct Comparison {
  const StackSpec& spec;
  const Measurement& measured;
  DType dtype;
  const theory::Prediction& prediction;
  double rounding = 0.0;  ///< relative error of a forward statistic by rounding in addition to that of dtype
};

/// Lists the curves that verdicts compare: second moment, variance and token cosine of the stream (x_out), second
/// moment and token cosine of every module's output (f_out), and the second moment of ResiDual's second stream; with
/// gradients, the mean over seeds of the logarithm of grad_sq of the stream at every depth and (not listed here) of
/// every matrix, and of the score path's share in every attention.
inline constexpr std::array<std::pair<Statistic, Signal>, 8> compared_curves{{{Statistic::second_moment, Signal::x_out},
                                                                              {Statistic::variance, Signal::x_out},
                                                                              {Statistic::token_cosine, Signal::x_out},
                                                                              {Statistic::second_moment, Signal::f_out},
                                                                              {Statistic::token_cosine, Signal::f_out},
                                                                              {Statistic::second_moment, Signal::r_out},
                                                                              {Statistic::log_grad_sq, Signal::x_out},
                                                                              {Statistic::score_share, Signal::A_out}}};

/// Returns the curves of one seed's profile that verdicts compare, which are stored because contrasts need the
/// correlations within a seed. Everything else is averaged at once (SeedAverage).
Profile compared_part(const Profile& profile);

/// The limit of the detectable errors of a statistic; grad_sq has that of log_grad_sq, which it replaces at zero.
double limit_of(const config::PowerLimits& limits, Statistic statistic);

/// Returns a test of every measured number with its tolerated bias. Its prediction is NaN if theory has none; a number
/// that neither side has, as the score path's share of an MLP, gives no test.
/// Forward: rounding alone if the prediction is exact at the stack's width (T25), else also WidthBias::of_signal
/// (T19). Gradients: WidthBias::of_log_gradient plus half the variance over seeds of the logarithm, by which a
/// log-normal spread lowers the mean of logarithms. A share p has the bias of log(p/(1−p)) times p(1−p). If that
/// variance, or the variance of a mean over one pattern per head, is 2 or more for one gradient, all gradients of the
/// stack tolerate an infinite bias: the verdict is inconclusive. A gradient that is predicted within the rounding of
/// the backward pass (GradientFloor) is compared directly, not by its logarithm, and its errors are relative to the
/// terms that cancel in it.
std::vector<Test> stack_tests(const Comparison& comparison, const config::AgreementOptions& options);

/// Names the entries that miss the wanted standard error, of logarithms of gradients and of score_share, one text per
/// curve: "log_grad_sq q[0-5]", "score_share A_out[0, 2]".
std::vector<std::string> imprecise_names(const theory::Prediction& prediction);

/// Returns why the prediction is out of the range of dtype or double, or "": a scale of the specification whose square
/// is not a normal f64, or the first predicted second moment of a signal whose squares the dtype cannot represent.
std::string out_of_range(const StackSpec& spec, const Profile& predicted, DType dtype);

}  // namespace periscope::judge
