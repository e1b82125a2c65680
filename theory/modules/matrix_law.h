#pragma once

#include "theory/modules/channel_kernel.h"

namespace periscope::theory {

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

/// Returns how far n unlike channels are from n alike ones, mean(p²)/mean(p)² ≥ 1: a mean over them fluctuates as one
/// over n divided by this. 1 for an empty vector.
double unevenness(const Vector& powers);

/// T29 into a matrix: the kernel of what a row of mean square 1/n sees, Σ_l mean_k(columns_k·power_l,k)·product_l. With
/// empty columns that is `total.product`.
Matrix read_kernel(const ChannelKernel& x, const Vector& columns);

/// T29 out of a matrix: a signal of independent channels whose kernels are `product` times the matrix's row powers.
ChannelKernel with_row_powers(const Matrix& product, const Vector& rows, int width);

}  // namespace periscope::theory
