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

/// Says how precise a prediction has to be. Only the attention patterns are sampled (T3).
struct PredictionOptions {
  /// Wanted standard error of the prediction, relative for second moments and absolute for cosines.
  double tolerance = 0.01;
  /// The tolerance, with labels, of the logarithm of every squared gradient and of score_share.
  double gradient_tolerance = 0.03;
  int most_samples = 1 << 14;  ///< patterns per attention sublayer; below 64 tokens up to four times as many (T3)
  /// Operations that the patterns may take.
  double operations = std::numeric_limits<double>::infinity();
  bool reaches_tolerance = false;  ///< starts with what `operations` pay for and continues to the tolerance
  std::uint64_t seed = 0;
  /// Label sequences to average over (T7); empty: no gradients are predicted.
  std::vector<std::vector<int>> labels = {};
  GradientPaths paths = GradientPaths::all;
  Fault fault = Fault::none;  ///< an injected mistake
  OnProgress on_progress = {};
};

/// The prediction for a stack of random weights.
struct Prediction {
  /// The profile that verdicts compare with. Standard errors come from the spread of the replicates.
  Profile profile;
  std::string unsupported;           ///< why there is no profile; empty if there is one
  std::vector<double> finite_width;  ///< T19: w at depths 0 … 2L (theory/passes/forward.h)
  int replicates = 0;        ///< degrees of freedom of the limit's standard errors, plus 1: for one input, chains
  int samples = 0;           ///< patterns averaged at every attention sublayer in the forward pass, over all chains
  int backward_samples = 0;  ///< the same in the backward pass; 0 without gradients
  double tolerance = 0.0;    ///< wanted standard errors, from PredictionOptions
  double gradient_tolerance = 0.0;
  std::string gradient_unsupported = {};  ///< why the profile has no gradients although they were asked for, or empty

  /// True after `predict_at_width` (theory/predict/finite_width_chain.h): the curves of `profile` that `spread` has are
  /// those of T25, exact at the stack's own widths, and need no finite-width allowance. Gradients, kurtosis, maximum
  /// and angular distances remain those of the limit.
  bool exact_at_width = false;
  Profile limit = {};   ///< then: T2–T11 at infinite width, every curve; else empty
  Profile spread = {};  ///< then: `value` is the standard deviation of one seed's reading, given its token ids
  /// The part of the prediction that was left out because it would have taken longer than the measurement; "" if
  /// nothing was.
  std::string left_out = {};
  int finite_width_replicates = 0;  ///< then: replicates of the chain T25
  int finite_width_degrees = 0;     ///< degrees of freedom of their spread
  bool replicates_given = false;    ///< then: their number was set, not derived from the seeds
  /// Then: each replicate's reading, for sums over depth; the sequences of token ids one after another, with equally
  /// many replicates each.
  std::vector<Profile> draws = {};
  int draws_per_sequence = 0;

  /// True if the prediction of this statistic is exact at the stack's own widths.
  [[nodiscard]] bool exact_at_width_for(Statistic statistic, CurvePlace place) const {
    return exact_at_width && spread.find(statistic, place) != nullptr;
  }
};

/// Floating-point operations of one pattern at every attention of a stack, forward and, with `backward`, back, about.
double pattern_operations(const StackSpec& spec, bool backward);

/// True if entry i of a predicted curve has the wanted standard error: at most gradient_tolerance for gradients and
/// score_share, relative to the value (absolute for logarithms), and at most tolerance for everything else, relative
/// (absolute for cosines). Exact entries are precise. Others are published with their errors; no verdict rests on them.
bool is_precise(const Prediction& prediction, Statistic statistic, const Curve& curve, std::size_t i);

/// Why `predict` has no profile of such a stack, whatever its options, or ""; why it has no gradients, or "".
std::string prediction_unsupported(const StackSpec& spec);
std::string gradient_unsupported(const StackSpec& spec);

/// Predicts T2–T6, and with labels T7–T11 (grad_sq of the stream and of every matrix, and their logarithms). `ids`
/// holds the token sequences to average over (none for Gaussian input); of more than 64 the first 64 are used, and the
/// errors cover the difference that the others may make. If options.operations do not pay for 16 chains of 2 and 16
/// patterns, it begins with fewer, at least 4 of 2 and 4; left_out says where the tolerance is then missed. Gradients
/// are left out, with the reason, where gradient_unsupported has one or where the sampled share of a score path is
/// outside [0, 1] by more than its error. The result does not depend on the number of threads.
Prediction predict(const StackSpec& spec, const std::vector<std::vector<int>>& ids, const PredictionOptions& options);

/// One chain of two patterns, with the same random numbers for every specification: too few for a prediction, but equal
/// predictions of two specifications are equal to the bit. No gradients where `predict` leaves them out.
Profile sketch(const StackSpec& spec, const std::vector<std::vector<int>>& ids, const PredictionOptions& options);

/// predict() for the windows of one batch, with their labels or none, where the loss is the mean over all tokens of the
/// batch. A weight's gradient is the mean of those of the windows, E‖Σ_i g_i/B‖² = (Σ_i E‖g_i‖² + Σ_i≠j E⟨g_i,
/// g_j⟩)/B², so T2–T11 run on pairs of windows, with the kernels between them. Other statistics are means over the
/// windows; the maximum is left out. options.labels are not read. Throws as pairs_of_windows does.
Prediction predict_batch(const StackSpec& spec, const std::vector<std::vector<int>>& windows,
                         const std::vector<std::vector<int>>& labels, const PredictionOptions& options);

}  // namespace periscope::theory
