#pragma once

#include "sim/spec/model_spec.h"
#include "theory/kernels/kernel.h"
#include "theory/kernels/normal_stream.h"

/// Signals of the finite-width chain (T25). Only the Gram matrix XXᵀ of a signal X [T, D] and its means over features
/// matter. X is therefore stored as coordinates [T, r] in an orthonormal frame of r ≤ D directions, the first of which
/// is (1, …, 1)/√D. Norms, sums and Gram statistics act on coordinates as on features. A Gaussian matrix of standard
/// deviation s maps an input with coordinates a [T, r] to independent features a·g, g [r, 1] normal with standard
/// deviation s. Inner signals of modules thus have the same distribution as in a simulation.
namespace periscope::theory {

/// Returns L with L Lᵀ = x xᵀ and no more columns than rows: x itself if possible. Repeated rows stay equal.
Matrix square_root(const Matrix& x);
/// Returns L [n, n] with L Lᵀ = gram [n, n], positive semidefinite. Reads the lower triangle only.
Matrix root_of_gram(const Matrix& gram);

/// Returns the signal in a frame of at most rows + 1 directions: keeps the first column and replaces the others by
/// their square root. Coordinates of other signals become invalid, so stack all signals as rows of x.
Matrix compacted(const Matrix& x);

/// Samples `width` independent features with covariance root·rootᵀ over tokens, root [T, k]. Returns coordinates in a
/// frame of `frame` directions plus at most k new orthogonal ones: root·[N | A], N [k, frame] standard normal,
/// A Aᵀ ~ Wishart(I_k, width − frame). Exact in distribution, also in singular cases.
Matrix independent_features(const Matrix& root, Index frame, int width, NormalStream& stream);

/// Estimates of each Statistic for one seed, as probes measure them. The token cosine of a single token is NaN.
struct SignalReading {
  double second_moment, variance, mean, token_cosine;
};
SignalReading read_signal(const Eigen::Ref<const Matrix>& x, int width);

/// Returns a root [T, k], k ≤ T, of the covariance over tokens of one output feature of attention,
/// σ_o² Σ_h (A_h V_h)(A_h V_h)ᵀ; heads of a group share keys and values. Rows are concatenated sequences of `sequence`
/// tokens that do not attend to each other.
Matrix attention_root(const StackSpec& spec, int layer, const Matrix& input, Index sequence, NormalStream& stream);

/// Returns a root of the covariance over tokens of one output feature of the MLP, σ_d² Σ_j hidden_j hidden_jᵀ.
Matrix mlp_root(const StackSpec& spec, int layer, const Matrix& input, NormalStream& stream);

}  // namespace periscope::theory
