#pragma once

#include <vector>

#include "sim/spec/weight.h"
#include "theory/norms/norm_law.h"

namespace periscope::theory {

/// Gains of a norm: one shared by all channels, or one per channel.
struct Gain {
  double all = 1.0;        ///< the shared gain, used if `each` is empty
  Vector each = Vector();  ///< [D]

  [[nodiscard]] bool is_uniform() const { return each.size() == 0; }
};

/// Returns the gains of a norm, as one shared number if they are equal.
Gain norm_gain(const StackSpec& spec, int sublayer, Weight norm);

/// One term a∘b of a signal: the channels of b are independent with a common kernel, and a_k scales channel k.
struct ChannelTerm {
  Vector power;        ///< a_k² [D]; empty: 1 in every channel
  TokenKernel kernel;  ///< `product` is the kernel of b; `mean` is the kernel of the mean of a∘b over channels

  [[nodiscard]] double mean_power() const { return power.size() == 0 ? 1.0 : power.mean(); }
};

/// Kernels of a signal whose channels may differ in size (norms with per-channel gains, T29): a sum of independent
/// terms. Channel k has E x_t,k x_t',k = Σ_l power_l,k · product_l; this per-channel kernel is never formed.
struct ChannelKernel {
  TokenKernel total;  ///< means over channels: sufficient for statistics and for matrices with i.i.d. entries
  std::vector<ChannelTerm> terms = {};  ///< empty: `total` is the kernel of every channel

  [[nodiscard]] bool is_uniform() const { return terms.empty(); }
  /// Returns E x_t,k² [T, D]; for a uniform signal the diagonal of `total` [T, 1].
  [[nodiscard]] Matrix second_moments() const;
};

/// Norm (T2) with gains g: g_k² multiplies the power of channel k, and each token is divided by its rms over all input
/// channels. A module after the norm reads Σ_l mean_k(g_k² power_l,k) · product_l. LayerNorm subtracts the mean, to
/// leading order in 1/D.
ChannelKernel normalised(const ChannelKernel& x, const NormUse& norm, const Gain& gain);

/// Residual sum (T6) a·x + b·y where y is centred and independent of x.
ChannelKernel combined(double a, const ChannelKernel& x, double b, const ChannelKernel& y);

/// Adds a bias: a vector with independent entries N(0, stddev²), the same for every token.
ChannelKernel with_bias(ChannelKernel x, double stddev, int width);

/// Variance profile of a matrix (T29): independent centred entries, Var W_ij = variance·rows_i·columns_j.
struct MatrixLaw {
  double variance;
  Vector rows;     ///< r_i² [fan_out]; empty: 1
  Vector columns;  ///< c_j² [fan_in]; empty: 1

  [[nodiscard]] bool is_flat() const { return rows.size() == 0 && columns.size() == 0; }
};

MatrixLaw matrix_law(const StackSpec& spec, int layer, Weight weight);

/// Returns the mean of `rows` or `columns` of a MatrixLaw; 1 if empty.
double mean_of(const Vector& side);

/// Returns mean(p²)/mean(p)² ≥ 1 of channel powers, 1 if empty. A mean over n channels fluctuates as if over
/// n/unevenness equal channels.
double unevenness(const Vector& powers);

/// Input kernel as seen by the rows of a matrix with column powers `columns` (T29):
/// Σ_l mean_k(columns_k·power_l,k)·product_l. Equals `total.product` if `columns` is empty.
Matrix read_kernel(const ChannelKernel& x, const Vector& columns);

/// Signal at the output of a matrix (T29): independent channels whose kernels are `product` times the row powers.
ChannelKernel with_row_powers(const Matrix& product, const Vector& rows, int width);

}  // namespace periscope::theory
