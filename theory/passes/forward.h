#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/spec/profile.h"
#include "theory/attention/attention_pattern.h"
#include "theory/modules/fault.h"
#include "theory/norms/norm_law.h"

namespace periscope::theory {

/// The token sequences of a chain, one after another: some of the windows of a batch. They do not attend to each other
/// but share their weights, so the kernels [T, T] over the tokens of all sequences have cross terms.
struct ChainSequences {
  int count = 1;
  int of = 1;  ///< windows of the batch, over all of which the loss is a mean
};

/// One chain of the forward recursion T2–T6: its inputs, and how its attention averages are sampled.
struct ForwardChain {
  std::vector<int> ids;  ///< token ids of the input, empty for Gaussian input (then there is one sequence)
  int samples = 2;       ///< sampled attention patterns per attention sublayer (T3)
  std::uint64_t seed = 0;
  std::uint64_t replicate = 0;
  Fault fault = Fault::none;
  int backward_samples = 0;  ///< patterns of each attention in the backward pass; 0: as many as `samples`
  ChainSequences sequences = {};
  OnWork on_work = [](double) {};  ///< receives 1 for every pattern and sublayer
  /// The tokens that represent all others (grid_for); null: all tokens. It outlives the chain. Forward pass of Gaussian
  /// input only.
  const TokenGrid* grid = nullptr;
};

/// Holds what the backward recursion needs to know of one branch.
struct SublayerTrace {
  Matrix input;      ///< kernel of the module's input (A_out) [T, T]
  Matrix activated;  ///< of an MLP, mlp_kernel's `activated` [T, T]
  NormTrace norm_a;  ///< of norm A's input x_in
  NormTrace norm_b;  ///< of norm B's input f_out
  Vector r_inner;    ///< of the inner norm's input in an attention [T]; empty without one
};

/// One forward chain, stored for the backward pass.
struct ForwardTrace {
  std::vector<SublayerTrace> sublayers;
  std::vector<std::vector<NormTrace>> norm_c;  ///< of every step and stream, where there is one: of norm C's input
  Matrix output;                               ///< kernel of what the loss sees: after the final norm [T, T]
  NormTrace final_norm;                        ///< of the final norm's input
};

/// T3's law of one head of a layer, with profiles (T29) of a drawn one.
PatternLaw pattern_law(const StackSpec& spec, int layer);

/// The grid of tokens (TokenGrid) for the forward recursion with Gaussian input, if it keeps at most half of the
/// tokens. None where patterns have windows, are uniform or very sharp, or where weights have scales of their own.
std::optional<TokenGrid> grid_for(const StackSpec& spec);

/// The attention averages of a stack's layers, for sequences of input.tokens that do not attend to each other.
class StackAttention {
 public:
  StackAttention(const StackSpec& spec, int sequences, const TokenGrid* grid = nullptr);
  [[nodiscard]] const AttentionAverage& at(int layer) const {
    return averages_[averages_.size() == 1 ? 0 : static_cast<std::size_t>(layer)];
  }

 private:
  std::vector<AttentionAverage> averages_;  // one if all layers have one law
};

/// Runs the recursion through all sublayers and reads every statistic at every site, without standard errors
/// (docs/theory/README.md). The maximum is that of independent tokens (T18). With the scales of given weights channels
/// differ (ChannelKernel): kurtosis and maximum are those of normal entries of unequal variance, and there are no
/// angular distances where a norm C has a gain for every channel. Fills `trace` unless it is null.
Profile forward_profile(const StackSpec& spec, const ForwardChain& chain, ForwardTrace* trace = nullptr);

/// T19's finite-width factor w_i at depth i = 0 … 2L: w⁺ = max(1, ε²)·w + max(1/D, 1/(32 H)), where ε = ∂log q⁺/∂log q
/// is the sublayer's elasticity; with profiles (T29) divided by channel_unevenness. It is i/D (for heads of up to 32
/// features) where norms bound the branches, and grows geometrically without norms, where every sublayer multiplies
/// fluctuations. `q_in`, `q_branch` are the predicted second moments of x_in and f_out.
std::vector<double> finite_width_factor(const StackSpec& spec, const std::vector<double>& q_in,
                                        const std::vector<double>& q_branch);

}  // namespace periscope::theory
