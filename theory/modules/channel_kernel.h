#pragma once

#include <vector>

#include "sim/spec/weight.h"
#include "theory/norms/norm_law.h"

namespace periscope::theory {

/// Gains of a norm: one for all channels, or one for each.
struct Gain {
  double all = 1.0;        ///< if `each` is empty
  Vector each = Vector();  ///< [D]

  [[nodiscard]] bool is_uniform() const { return each.size() == 0; }
};

/// gain_of, as one number where all channels have the same.
Gain norm_gain(const StackSpec& spec, int sublayer, Weight norm);

/// A part a∘b of a signal: b's channels are independent of each other, of one kernel, and a channel's number a_k
/// scales it.
struct ChannelTerm {
  Vector power;        ///< a_k² [D]; empty: 1 in every channel
  TokenKernel kernel;  ///< `product` is b's; `mean` is the kernel of the mean over channels of a∘b

  [[nodiscard]] double mean_power() const { return power.size() == 0 ? 1.0 : power.mean(); }
};

/// The kernels of a signal whose channels need not be alike, because it went through norms with a gain for each: a sum
/// of independent terms, with one E x_t,k x_t',k for every channel k, Σ_l power_l,k · product_l, that is never formed.
struct ChannelKernel {
  TokenKernel total;  ///< means over the channels: what statistics and matrices with independent entries see
  std::vector<ChannelTerm> terms = {};  ///< empty: `total` is the kernel of every channel

  [[nodiscard]] bool is_uniform() const { return terms.empty(); }
  /// E x_t,k² [T, D]; of a uniform signal the total's diagonal [T, 1].
  [[nodiscard]] Matrix second_moments() const;
};

/// T2 with gains g: g_k² multiplies the power of channel k, and tokens are divided by the root mean square over all
/// channels of what comes in. A module behind the norm sees Σ_l mean_k(g_k² power_l,k) · product_l: where the gains go
/// with a term's powers that is not the product of their means. LayerNorm takes off the mean, to leading order in 1/D.
ChannelKernel normalised(const ChannelKernel& x, const NormUse& norm, const Gain& gain);

/// T6: a·x + b·y for y independent of x and centred.
ChannelKernel combined(double a, const ChannelKernel& x, double b, const ChannelKernel& y);

/// x plus a vector with independent entries N(0, stddev²), the same for every token: a bias.
ChannelKernel with_bias(ChannelKernel x, double stddev, int width);

}  // namespace periscope::theory
