#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"
#include "theory/attention/share_done.h"
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
  bool reaches_tolerance = false;  ///< it begins with as many as `operations` pay for, and goes on to the tolerance
  std::uint64_t seed = 0;
  /// Label sequences to average over (T7); empty: no gradients are predicted.
  std::vector<std::vector<int>> labels = {};
  GradientPaths paths = GradientPaths::all;
  Fault fault = Fault::none;  ///< a mistake planted on purpose
  OnShare on_share = {};
};

/// The prediction for a stack of random weights.
struct Prediction {
  /// The profile that verdicts compare with. Standard errors come from the spread of the replicates.
  Profile profile;
  std::string refusal;               ///< why there is no profile; empty if there is one
  std::vector<double> finite_width;  ///< T19: w at depths 0 … 2L (theory/passes/forward.h)
  int replicates = 0;        ///< degrees of freedom of the limit's standard errors, plus 1: for one input, chains
  int samples = 0;           ///< patterns averaged at every attention sublayer in the forward pass, over all chains
  int backward_samples = 0;  ///< the same in the backward pass; 0 without gradients
  double tolerance = 0.0;    ///< PredictionOptions' wanted standard errors, as they were
  double gradient_tolerance = 0.0;
  std::string gradient_refusal = {};  ///< why the profile has no gradients although they were asked for, or empty

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
  bool replicates_given = false;    ///< then: their number was asked for, and does not follow the seeds
  /// Then: each replicate's reading, for sums over depth; the sequences of token ids one after another, with equally
  /// many replicates each.
  std::vector<Profile> draws = {};
  int draws_per_sequence = 0;

  /// True if the prediction of this statistic is exact at the stack's own widths.
  [[nodiscard]] bool exact_at_width_for(Statistic statistic, Signal signal) const {
    return exact_at_width && spread.find(statistic, signal) != nullptr;
  }
};

/// Floating-point operations of one pattern at every attention of a stack, forward and, with `backward`, back, about.
double pattern_operations(const StackSpec& spec, bool backward);

/// Returns how many patterns at every attention, over all chains, a prediction takes that wants so many and may cost
/// `operations`: as many as these pay for.
double affordable_patterns(const StackSpec& spec, bool backward, double wanted, double operations);

/// True if entry i of a predicted curve has the standard error that was wanted: of gradients and score_share relative
/// to the value (absolute for logarithms) at most gradient_tolerance, of cosines absolute and of everything else
/// relative at most tolerance. An exact entry is precise, 0 and −infinity included. What is not precise is published
/// with its error, and no verdict may rest on it.
bool is_precise(const Prediction& prediction, Statistic statistic, const Curve& curve, std::size_t i);

/// Why `predict` has no profile of such a stack, whatever its options, or ""; why it has no gradients, or "".
std::string prediction_refusal(const StackSpec& spec);
std::string gradient_refusal(const StackSpec& spec);

/// Predicts T2–T6, and with labels T7–T11 (grad_sq of the stream and of every matrix, and their logarithms). `ids`
/// holds the token sequences to average over (none for Gaussian input); of more than 64 the first 64 are used, and the
/// errors cover what the others may differ by. Where options.operations do not pay for 16 chains of 2 and 16 patterns,
/// it begins with fewer, at least 4 of 2 and 4; where these and what else is paid for miss the tolerance, left_out
/// says so. The result does not depend on the number of threads. Gradients that loss_refusal
/// (theory/passes/backward.h) names are left out, and all of them where the weights have scales of their own: the loss
/// of a trained model is not that of random weights, and so neither is what its gradients start from. Left out with a
/// reason are also gradients whose mean squares are infinite, behind QK-norm over one or two features and in front of a
/// norm B of a branch that one or two numbers make, and all gradients where the sampled share of a score path is not in
/// [0, 1] within its error.
Prediction predict(const StackSpec& spec, const std::vector<std::vector<int>>& ids, const PredictionOptions& options);

/// One chain of two patterns: too few for a prediction, but the same random numbers for every specification. What two
/// specifications predict alike is the same in both to the bit. No gradients where `predict` leaves them out.
Profile sketch(const StackSpec& spec, const std::vector<std::vector<int>>& ids, const PredictionOptions& options);

}  // namespace periscope::theory
