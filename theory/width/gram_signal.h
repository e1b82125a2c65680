#pragma once

#include "sim/spec/model_spec.h"
#include "theory/kernels/kernel.h"
#include "theory/kernels/normal_stream.h"

/// Signals of the finite-width chain (T25). A signal X [T, D] matters only through its Gram matrix XXᵀ and its means
/// over features: it is stored as coordinates [T, r] in an orthonormal frame of r ≤ D directions, the first of them
/// (1, …, 1)/√D. Norms, sums and statistics of Gram matrices act on coordinates as on features. A Gaussian matrix of
/// standard deviation s maps an input with coordinates a [T, r] to independent features a·g, g [r, 1] normal of
/// standard deviation s, so a module's signals are those of a run, up to the covariance of its output.
namespace periscope::theory {

/// L with L Lᵀ = x xᵀ and no more columns than rows; x itself if it has no more. Repeated rows stay equal.
Matrix square_root(const Matrix& x);
/// L [n, n] with L Lᵀ = gram [n, n], positive semidefinite, of which the lower half counts.
Matrix root_of_gram(const Matrix& gram);

/// Returns the signal in a frame of no more than rows + 1 directions: the first column stays, the others become their
/// square root. The frame's own directions are lost, so what else has coordinates in it must be among the rows.
Matrix compacted(const Matrix& x);

/// `width` independent features with covariance root·rootᵀ over tokens, root [T, k], as coordinates in a frame of
/// `frame` directions and of at most k new ones, orthogonal to them:  root·[N | A],  N [k, frame] standard normal,
/// A Aᵀ ~ Wishart(I_k, width − frame). Exact in law, singular cases included.
Matrix independent_features(const Matrix& root, Index frame, int width, NormalStream& stream);

/// One seed's estimators of Statistic, as the probes have them. The token cosine of one token is NaN.
struct SignalReading {
  double second_moment, variance, mean, token_cosine;
};
SignalReading read_signal(const Eigen::Ref<const Matrix>& x, int width);

/// Root [T, k], k ≤ T, of the covariance over tokens of one feature of attention's output: that covariance is
/// σ_o² Σ_h (A_h V_h)(A_h V_h)ᵀ, heads of one group sharing keys and values. The rows are sequences of `sequence`
/// tokens, one after another, that do not attend to each other.
Matrix attention_root(const StackSpec& spec, int layer, const Matrix& input, Index sequence, NormalStream& stream);

/// Returns a root of the kernel of the MLP's output: σ_d² Σ_j hidden_j hidden_jᵀ over the hidden features.
Matrix mlp_root(const StackSpec& spec, int layer, const Matrix& input, NormalStream& stream);

}  // namespace periscope::theory
