#pragma once

#include <cstddef>
#include <span>

#include "sim/numerics/number_format.h"
#include "sim/numerics/tensor_format.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/weight.h"

/// Noise-to-signal ratio E(x̂ − x)²/E x² of one rounding of Gaussian entries (T26), and the first-order noise of a
/// stream from roundings of many tensors (T27). Rounding is to nearest or stochastic. Stochastic rounding returns one
/// of the neighbours a ≤ x ≤ b with mean x, so E(x̂ − x)² = (x − a)(b − x).
namespace periscope::theory {

/// Returns the noise ratio of rounding N(0, σ²) to a floating format of precision p, ignoring overflow: the mean over
/// binades divided by σ². Numbers in [2^e, 2^(e+1)) have spacing 2^(e+1−p) and mean square error 4^(e+1−p)/12, or
/// 4^(e+1−p)/6 if stochastic. Below the smallest normal number 2^m the spacing is 2^(m+1−p), and the error depends
/// on the ratio of spacing to σ. Far from both ends of the format's range, rounding to nearest has ratio 0.1803·4^−p
/// (6.02p + 7.44 dB) on average over the fractional part of log₂ σ.
double floating_noise(const NumberFormat& format, double sigma, bool stochastic = false);

/// Returns the noise ratio of a quantization with scales, for groups of `group` entries of N(0, σ²): the mean over the
/// law of the largest entry M of ((n − 1)·E[(x̂ − x)² | |x| < M] + E(M̂ − M)²)/(n σ²). The scale follows from M (see
/// Quantization); for BlockScale::e4m3 also from the median of the largest of the tensor's `tensor` entries.
double scaled_noise(const Quantization& q, double sigma, std::size_t group, std::size_t tensor);

/// Returns the noise ratio E(x̂ − x)²/σ² of a weight matrix of the stack, stored as `q` (T26).
double weight_noise(const StackSpec& spec, int layer, Weight weight, const Quantization& q);

/// Accumulates the noise of rounded tensors upstream of a stream (T27). Rounding adds independent errors δ_i of mean
/// square v_i to a tensor, which change the stream x by Jδ. For a loss L with isotropic ∂L/∂x and g = Jᵀ∂L/∂x:
/// E‖Jδ‖² = Σ_i v_i g_i² · N/‖∂L/∂x‖² for a stream of N numbers.
class NoiseBudget {
 public:
  /// Adds `factor`·v_i g_i² for every entry.
  void add(std::span<const double> square_errors, std::span<const double> gradient, double factor = 1.0);
  /// Adds v·g² of one entry, or a precomputed sum over entries.
  void add(double square_error, double gradient_square) { sum_ += square_error * gradient_square; }
  /// Returns Σx²/E‖Jδ‖² in dB for the stream x and its gradient ∂L/∂x; NaN if nothing was rounded.
  [[nodiscard]] double sqnr(std::span<const double> stream, std::span<const double> gradient) const;

 private:
  double sum_ = 0.0;
};

}  // namespace periscope::theory
