#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"
#include "theory/attention/prediction_progress.h"
#include "theory/modules/fault.h"

namespace periscope::theory {

/// Precision and scope of a prediction. Only attention patterns are sampled (T3).
struct PredictionOptions {
  /// Requested standard error, relative for second moments and absolute for cosines.
  double tolerance = 0.01;
  /// Requested standard error of the logarithm of squared gradients and of score_share; used with labels.
  double gradient_tolerance = 0.03;
  int max_samples = 1 << 14;  ///< patterns per attention sublayer; up to four times as many below 64 tokens (T3)
  /// Budget of operations for the patterns.
  double operations = std::numeric_limits<double>::infinity();
  bool reaches_tolerance = false;  ///< run beyond `operations` until the tolerance is reached
  std::uint64_t seed = 0;
  /// Label sequences to average over (T7); empty: no gradients are predicted.
  std::vector<std::vector<int>> labels = {};
  GradientPaths paths = GradientPaths::all;
  Fault fault = Fault::none;
  OnProgress on_progress = {};
};

/// The prediction for a stack of random weights.
struct Prediction {
  /// Predicted curves. Standard errors come from the spread of the replicates.
  Profile profile;
  std::string unsupported;           ///< why there is no profile; empty if there is one
  std::vector<double> finite_width;  ///< finite-width factor w (T19) at depths 0 … 2L (theory/passes/forward.h)
  int replicates = 0;        ///< 1 + degrees of freedom of standard errors; for one input the number of replicates
  int samples = 0;           ///< patterns per attention sublayer in the forward pass, over all replicates
  int backward_samples = 0;  ///< patterns averaged in the backward pass; 0 without gradients
  double tolerance = 0.0;    ///< PredictionOptions::tolerance
  double gradient_tolerance = 0.0;
  std::string gradient_unsupported = {};  ///< why requested gradients are missing; empty otherwise

  /// True after `predict_at_width` (theory/predict/finite_width_chain.h): the curves of `profile` that `spread`
  /// contains come from the finite-width chain (T25). They are exact at the stack's widths and need no tolerated bias.
  /// Gradients, kurtosis, maximum and angular distances are still predicted in the limit.
  bool exact_at_width = false;
  // Except left_out, the following fields are empty or 0 unless exact_at_width.
  Profile limit = {};         ///< all curves at infinite width (T2–T11)
  Profile spread = {};        ///< `value` is the standard deviation of a statistic over seeds, given the token ids
  std::string left_out = {};  ///< parts omitted as too expensive or unsupported, with the reason; "": none
  int finite_width_replicates = 0;  ///< replicates of the finite-width chain (T25)
  int finite_width_degrees = 0;     ///< degrees of freedom of `spread`
  bool replicates_given = false;    ///< the number of replicates was set by the user, not derived from the seeds
  /// Curves of each replicate of the finite-width chain, for sums over depth. Grouped by sequence of token ids, each
  /// with replicates_per_sequence entries.
  std::vector<Profile> replicate_profiles = {};
  int replicates_per_sequence = 0;

  /// Returns true if the prediction of this statistic is exact at the stack's widths.
  [[nodiscard]] bool exact_at_width_for(Statistic statistic, CurvePlace place) const {
    return exact_at_width && spread.find(statistic, place) != nullptr;
  }
};

/// Returns the approximate number of operations for one pattern per attention sublayer: forward pass and, if
/// `backward`, backward pass.
double pattern_operations(const StackSpec& spec, bool backward);

/// Gradients of longer Gaussian inputs stay on a token grid (grid_for), even if a requested tolerance is below its
/// error.
constexpr int max_gradient_tokens = 1024;

/// Returns true if entry i of a predicted curve has the requested standard error: `gradient_tolerance` for
/// gradients and score_share, `tolerance` for other statistics. It is relative to the value, but absolute for
/// logarithms and cosines. Exact entries are precise. Imprecise entries are reported but give no verdict.
bool is_precise(const Prediction& prediction, Statistic statistic, const Curve& curve, std::size_t i);

/// Returns why `predict` does not support the stack, for any options, or "".
std::string prediction_unsupported(const StackSpec& spec);
/// Returns why `predict` does not support gradients of the stack, or "".
std::string gradient_unsupported(const StackSpec& spec);

/// Predicts the forward pass (T2–T6) and, with labels, gradients (T7–T11): grad_sq of the stream and of every matrix,
/// and their logarithms. `ids` holds the token sequences to average over; empty for Gaussian input. At most 64
/// sequences are used; errors then include the sampling of sequences. Starts with 16 replicates of 2 patterns and 16
/// replicates of 16 patterns. If options.operations is too small, starts with fewer, and left_out reports a missed
/// tolerance. Gradients are omitted, with the reason, if gradient_unsupported returns one, or if a sampled score_share
/// is outside [0, 1] by more than its error. The result does not depend on the number of threads.
Prediction predict(const StackSpec& spec, const std::vector<std::vector<int>>& ids, const PredictionOptions& options);

/// Runs one replicate of two patterns, with the same random numbers for every specification. Too noisy for a
/// prediction, but specifications with equal predictions give bitwise equal results. Omits unsupported gradients.
Profile quick_profile(const StackSpec& spec, const std::vector<std::vector<int>>& ids,
                      const PredictionOptions& options);

/// Runs predict() for all windows of a batch, with or without labels; the loss is the mean over all its tokens.
/// The gradient of a weight is the mean over the windows, E‖Σ_i g_i/B‖² = (Σ_i E‖g_i‖² + Σ_i≠j E⟨g_i, g_j⟩)/B². T2–T11
/// therefore run on pairs of windows, including their cross kernels. Other statistics are means over the windows; the
/// maximum is omitted. Ignores options.labels. Throws like pairs_of_windows.
Prediction predict_batch(const StackSpec& spec, const std::vector<std::vector<int>>& windows,
                         const std::vector<std::vector<int>>& labels, const PredictionOptions& options);

}  // namespace periscope::theory
