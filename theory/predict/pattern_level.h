#pragma once

#include <cstddef>
#include <vector>

#include "theory/passes/forward.h"
#include "theory/predict/predict.h"

namespace periscope::theory {

/// The inputs that the chains of a prediction read, in turn.
struct ChainInputs {
  std::vector<std::vector<int>> ids;          ///< each the token ids of a chain; one empty one for Gaussian input
  std::vector<std::vector<int>> labels = {};  ///< their own, one by one; none: all chains average over the options'
  ChainSequences sequences = {};
  std::size_t population = 1;  ///< of how many such inputs these are some
};

/// The windows of one batch in pairs, one after the other [2T], with their labels if there are any; a single window
/// stays single. The squared gradient of a mean over B windows, Σ_ij ⟨g_i, g_j⟩/B², has terms of one window and of two,
/// so pairs determine its expectation. Of more than `most` pairs as many are taken, each window about equally often.
/// Throws std::invalid_argument without windows, for windows of different lengths, labels of other windows, and tokens
/// without label: then the windows' shares in the loss would differ.
ChainInputs pairs_of_windows(const std::vector<std::vector<int>>& ids, const std::vector<std::vector<int>>& labels,
                             std::size_t most);

/// Means over independent chains of one input of all that a profile holds, and the sums of squares of the deviations
/// (Welford). Profiles are added in a fixed order, so that the result does not depend on who computed them.
class ProfileMoments {
 public:
  void add(const Profile& chain);

  [[nodiscard]] int count() const { return count_; }
  /// Values are means; standard_error holds Σ(value − mean)².
  [[nodiscard]] const Profile& sums() const { return sums_; }

 private:
  int count_ = 0;
  Profile sums_;
};

/// The mean over inputs of their means. Standard errors come from the spread between chains of one input. For the mean
/// over a larger `population` s²(1/n − 1/population) is added, s² the variance of the n inputs' means. Every input has
/// the same number of chains, at least 2.
Profile combined(const std::vector<ProfileMoments>& inputs, std::size_t population);

/// Independent chains of the recursion T2–T11 with equally many sampled patterns at every attention, the token
/// sequences in turn.
class PatternLevel {
 public:
  /// Levels of different `number` share no random numbers. The references must outlive the level.
  /// `grid` is null or stands for the tokens of the one Gaussian input.
  PatternLevel(const StackSpec& spec, const ChainInputs& inputs, const PredictionOptions& options, int number,
               int samples, int backward_samples, const TokenGrid* grid = nullptr);

  /// Work of this number of chains, in the units that they report to `share`, which outlives this.
  [[nodiscard]] double work(int chains) const;
  void tell(PredictionProgress& share) { share_ = &share; }
  /// Runs chains until there are `chains` of them, a multiple of the inputs.
  void grow(int chains);

  [[nodiscard]] int chains() const { return chains_; }
  [[nodiscard]] int samples() const { return samples_; }
  /// Patterns of each chain in the backward pass.
  [[nodiscard]] int backward_samples() const { return backward_samples_; }
  /// Means over the chains, with standard errors from their spread.
  [[nodiscard]] Profile mean() const { return combined(moments_, inputs_.ids.size()); }
  /// Returns the mean over all of the inputs' population: errors cover what those that are left out may differ by.
  [[nodiscard]] Profile mean_of_population() const { return combined(moments_, inputs_.population); }

 private:
  [[nodiscard]] Profile chain(int number) const;
  [[nodiscard]] std::size_t input_of(int chain) const { return static_cast<std::size_t>(chain) % inputs_.ids.size(); }

  const StackSpec& spec_;
  const ChainInputs& inputs_;
  const PredictionOptions& options_;
  int number_;
  int samples_;
  int backward_samples_;
  const TokenGrid* grid_;
  PredictionProgress* share_ = nullptr;
  int chains_ = 0;
  std::vector<ProfileMoments> moments_;
};

/// A chain of S patterns is biased by a/S + O(1/S²), because the recursion is nonlinear in the sampled kernels. From
/// the means of S/r (`before`) and S patterns, m(S) + (m(S) − m(S/r))/(r − 1) is free of a: `curve` becomes that. The
/// bias compounds over sublayers, like exp(a/S), which leaves at most about the step's square over 2(r − 1), in units
/// of the value if `relative`, else of 1; the standard error covers it. Returns the part of every error that more
/// chains of S patterns do not reduce, that and the noise of m(S/r): infinite where m(S/r) is not finite, 0 without a
/// step.
std::vector<double> extrapolate(Curve& curve, const Curve& before, double r, bool relative);

}  // namespace periscope::theory
