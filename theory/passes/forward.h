#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/spec/profile.h"
#include "theory/attention/attention_pattern.h"
#include "theory/modules/fault.h"
#include "theory/norms/norm_law.h"

namespace periscope::theory {

/// Concatenated token sequences of a replicate: some windows of a batch. They do not attend to each other but share
/// weights, so the kernels [T, T] over the tokens of all sequences have cross terms.
struct ReplicateSequences {
  int count = 1;
  int batch = 1;  ///< number of windows in the batch; the loss is the mean over all of them
};

/// One replicate of the forward recursion (T2–T6): its inputs and the sampling of its attention averages.
struct ForwardReplicate {
  std::vector<int> ids;  ///< token ids of the input; empty for Gaussian input, which has a single sequence
  int samples = 2;       ///< sampled attention patterns per attention sublayer (T3)
  std::uint64_t seed = 0;
  std::uint64_t index = 0;  ///< number of the replicate
  Fault fault = Fault::none;
  int backward_samples = 0;  ///< patterns per attention sublayer in the backward pass; 0: `samples`
  ReplicateSequences sequences = {};
  OnWork on_work = [](double) {};  ///< receives 1 for every pattern and sublayer
  /// Grid of representative tokens (grid_for), which must outlive this object; null: all tokens. Gaussian input only.
  const TokenGrid* grid = nullptr;
};

/// Data of one branch that the backward recursion needs.
struct SublayerTrace {
  Matrix input;      ///< kernel of the module's input (A_out) [T, T]
  Matrix activated;  ///< MLPs: the output `activated` of mlp_kernel [T, T]
  NormTrace norm_a;  ///< trace of norm A, whose input is x_in
  NormTrace norm_b;  ///< trace of norm B, whose input is f_out
  Vector r_inner;    ///< attention: squared divisor of the inner norm [T]; empty without that norm
};

/// A forward replicate, stored for the backward pass.
struct ForwardTrace {
  std::vector<SublayerTrace> sublayers;
  std::vector<std::vector<NormTrace>> norm_c;  ///< [step][stream]; empty trace without a norm C
  Matrix output;                               ///< kernel at the input of the loss or unembedding [T, T]
  NormTrace final_norm;
};

/// Returns the pattern law (T3) of one head of a layer; with variance profiles (T29) the head is drawn at random.
PatternLaw pattern_law(const StackSpec& spec, int layer);

/// Returns the token grid for the forward recursion with Gaussian input, if it keeps at most half of the tokens.
/// Returns nullopt for windows, uniform or very sharp patterns, or weights with given scales.
std::optional<TokenGrid> grid_for(const StackSpec& spec);

/// Attention averages of a stack's layers, for sequences of length input.tokens that do not attend to each other.
class StackAttention {
 public:
  /// `fit`: for gradients on the grid; see AttentionAverage.
  StackAttention(const StackSpec& spec, int sequences, const TokenGrid* grid = nullptr, const GridFit* fit = nullptr);
  [[nodiscard]] const AttentionAverage& at(int layer) const {
    return averages_[averages_.size() == 1 ? 0 : static_cast<std::size_t>(layer)];
  }

 private:
  std::vector<AttentionAverage> averages_;  // a single entry if all layers have the same law
};

/// Runs the forward recursion and evaluates every statistic at every site, without standard errors
/// (docs/theory/README.md). The maximum assumes independent tokens (T18). With the scales of given weights, channels
/// differ (ChannelKernel): kurtosis and maximum then assume normal entries of unequal variance, and angular distances
/// are omitted after a norm C with per-channel gains. Fills `trace` unless it is null.
Profile forward_profile(const StackSpec& spec, const ForwardReplicate& replicate, ForwardTrace* trace = nullptr);

/// Returns the finite-width factor w_i (T19) at depths i = 0 … 2L: w⁺ = max(1, ε²)·w + max(1/D, 1/(32 H)), where
/// ε = ∂log q⁺/∂log q is the elasticity of the sublayer. With variance profiles (T29) the increment is multiplied by
/// channel_unevenness. w_i is i/D (heads of up to 32 features) if norms bound the branches, and grows geometrically
/// without norms. `q_in`, `q_branch`: predicted second moments of x_in and f_out.
std::vector<double> finite_width_factor(const StackSpec& spec, const std::vector<double>& q_in,
                                        const std::vector<double>& q_branch);

}  // namespace periscope::theory
