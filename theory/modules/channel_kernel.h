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

/// The kernels of a signal whose channels may differ in size, after norms with a gain for each: a sum of independent
/// terms. Channel k has E x_t,k x_t',k = Σ_l power_l,k · product_l, which is never formed.
struct ChannelKernel {
  TokenKernel total;  ///< means over the channels: what statistics and matrices with independent entries see
  std::vector<ChannelTerm> terms = {};  ///< empty: `total` is the kernel of every channel

  [[nodiscard]] bool is_uniform() const { return terms.empty(); }
  /// E x_t,k² [T, D]; of a uniform signal the total's diagonal [T, 1].
  [[nodiscard]] Matrix second_moments() const;
};

/// T2 with gains g: g_k² multiplies the power of channel k, and tokens are divided by the rms of the input over all
/// channels. A module after the norm sees Σ_l mean_k(g_k² power_l,k) · product_l. LayerNorm subtracts the mean, to
/// leading order in 1/D.
ChannelKernel normalised(const ChannelKernel& x, const NormUse& norm, const Gain& gain);

/// T6: a·x + b·y for y independent of x and centred.
ChannelKernel combined(double a, const ChannelKernel& x, double b, const ChannelKernel& y);

/// x plus a vector with independent entries N(0, stddev²), the same for every token: a bias.
ChannelKernel with_bias(ChannelKernel x, double stddev, int width);

/// The law of a matrix's entries (T29): independent, centred, W_ij of variance variance·rows_i·columns_j.
struct MatrixLaw {
  double variance;
  Vector rows;     ///< r_i² [fan_out]; empty: 1
  Vector columns;  ///< c_j² [fan_in]; empty: 1

  [[nodiscard]] bool is_flat() const { return rows.size() == 0 && columns.size() == 0; }
};

MatrixLaw matrix_law(const StackSpec& spec, int layer, Weight weight);

/// The mean of squares of a side of a profile, which is 1 where it is empty.
double mean_of(const Vector& side);

/// mean(p²)/mean(p)² ≥ 1 of channel powers, 1 if empty: the factor by which n channels count as fewer in fluctuations.
double unevenness(const Vector& powers);

/// T29 into a matrix: the kernel of what a row of mean square 1/n sees, Σ_l mean_k(columns_k·power_l,k)·product_l. With
/// empty columns that is `total.product`.
Matrix read_kernel(const ChannelKernel& x, const Vector& columns);

/// T29 out of a matrix: a signal of independent channels whose kernels are `product` times the matrix's row powers.
ChannelKernel with_row_powers(const Matrix& product, const Vector& rows, int width);

}  // namespace periscope::theory
