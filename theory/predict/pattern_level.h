#pragma once

#include <cstddef>
#include <vector>

#include "theory/passes/forward.h"
#include "theory/predict/predict.h"

namespace periscope::theory {

/// Inputs of the replicates of a prediction; replicates cycle through them.
struct ReplicateInputs {
  std::vector<std::vector<int>> ids;          ///< token ids of each input; one empty entry for Gaussian input
  std::vector<std::vector<int>> labels = {};  ///< labels of each input; empty: average over PredictionOptions::labels
  ReplicateSequences sequences = {};
  std::size_t population = 1;  ///< number of inputs that these inputs were selected from
};

/// Returns concatenated pairs of the windows of a batch [2T] and of their labels. A single window stays single.
/// The squared gradient of a mean over B windows, Σ_ij ⟨g_i, g_j⟩/B², involves at most two windows per term, so pairs
/// determine its expectation. At most `max_pairs` pairs are chosen, each window about equally often.
/// Throws std::invalid_argument without windows, for windows of different lengths, for labels that do not match, and
/// for tokens without a label, which would give windows different weights in the loss.
ReplicateInputs pairs_of_windows(const std::vector<std::vector<int>>& ids, const std::vector<std::vector<int>>& labels,
                                 std::size_t max_pairs);

/// Welford means and sums of squared deviations of all curves over independent replicates of one input. Profiles are
/// added in a fixed order, so the result does not depend on the number of threads.
class ProfileMoments {
 public:
  void add(const Profile& replicate);

  [[nodiscard]] int count() const { return count_; }
  /// Profile whose `value` holds means and whose `standard_error` holds Σ(value − mean)².
  [[nodiscard]] const Profile& sums() const { return sums_; }

 private:
  int count_ = 0;
  Profile sums_;
};

/// Returns the mean over inputs, each averaged over its replicates. Standard errors come from the spread between an
/// input's replicates. For a `population` larger than the n inputs, s²(1/n − 1/population) is added to squared errors,
/// s² the variance of the n means. Every input must have the same number of replicates, at least 2.
Profile combined(const std::vector<ProfileMoments>& inputs, std::size_t population);

/// Independent replicates of the recursion (T2–T11), all with the same number of patterns per attention sublayer.
class PatternLevel {
 public:
  /// Levels of different `number` share no random numbers. The references must outlive the level. `grid` is null or the
  /// token grid of the single Gaussian input.
  PatternLevel(const StackSpec& spec, const ReplicateInputs& inputs, const PredictionOptions& options, int number,
               int samples, int backward_samples, const TokenGrid* grid = nullptr);

  /// Returns the work of `replicates` replicates, in the units of PredictionProgress.
  [[nodiscard]] double work(int replicates) const;
  /// `progress` must outlive the level.
  void report_to(PredictionProgress& progress) { progress_ = &progress; }
  /// Adds replicates up to a total of `replicates`, a multiple of the number of inputs.
  void grow(int replicates);

  [[nodiscard]] int replicates() const { return replicates_; }
  [[nodiscard]] int samples() const { return samples_; }
  /// Patterns per replicate and attention sublayer in the backward pass.
  [[nodiscard]] int backward_samples() const { return backward_samples_; }
  /// Returns means over the replicates, with standard errors from their spread.
  [[nodiscard]] Profile mean() const { return combined(moments_, inputs_.ids.size()); }
  /// Same as mean(), but as an estimate for the population of inputs: errors include the sampling of inputs.
  [[nodiscard]] Profile mean_of_population() const { return combined(moments_, inputs_.population); }

 private:
  [[nodiscard]] Profile run_replicate(int index) const;
  [[nodiscard]] std::size_t input_of(int replicate) const {
    return static_cast<std::size_t>(replicate) % inputs_.ids.size();
  }

  const StackSpec& spec_;
  const ReplicateInputs& inputs_;
  const PredictionOptions& options_;
  int number_;
  int samples_;
  int backward_samples_;
  const TokenGrid* grid_;
  double backward_work_;  ///< cost of a pattern in the backward pass, relative to the forward pass
  PredictionProgress* progress_ = nullptr;
  int replicates_ = 0;
  std::vector<ProfileMoments> moments_;
};

/// Richardson extrapolation in the number of patterns. A replicate with S patterns has bias a/S + O(1/S²), because the
/// recursion is nonlinear in the sampled kernels. With the means m(S/r) (`previous`) and m(S) (`curve`), `curve`
/// becomes m(S) + step/(r − 1), step = m(S) − m(S/r), which removes a. The bias compounds over sublayers like exp(a/S),
/// so about step²/(2(r − 1)) remains, relative to the value if `relative`; the standard error includes it.
/// Returns the part of every error that more replicates of S patterns do not reduce: the remainder and the noise of
/// m(S/r). Infinite where m(S/r) is not finite, 0 for a zero step.
std::vector<double> extrapolate(Curve& curve, const Curve& previous, double r, bool relative);

}  // namespace periscope::theory
