#pragma once

#include <cstddef>
#include <span>

#include "sim/numerics/number_format.h"
#include "sim/numerics/tensor_format.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/weight.h"

/// The loss of one rounding of independent Gaussian entries, as the ratio E(x̂ − x)²/E x² (T26; in decibels −10 log10 of
/// it), and what roundings of tensors do to a stream of hidden states, to first order (T27). Rounding is to nearest, or
/// stochastic: to one of the two neighbours a ≤ x ≤ b with mean x, which has E(x̂ − x)² = (x − a)(b − x).
namespace periscope::theory {

/// Returns the loss of rounding N(0, σ²) in a floating format, without overflow: the mean over binades [2^e, 2^(e+1)),
/// where numbers are 2^(e+1−p) apart, of 4^(e+1−p)/12 to nearest, twice that stochastically, over σ². Below the
/// smallest normal number 2^m spacing is that of e = m, and unless it is small compared with σ the mean over positions
/// of x is used. Far from both ends, to nearest: 0.1803·4^−p over phases of log₂ σ, 6.02p + 7.44 dB.
double floating_noise(const NumberFormat& format, double sigma, bool stochastic = false);

/// Returns the loss of absmax-scaled integers −Q … Q over groups of `group` entries: E[a²]/(12Q²) with a = max|x|/σ,
/// stochastically twice that, except for the largest entry, which has no error.
double integer_noise(int largest_integer, std::size_t group, bool stochastic = false);

/// T26 of a matrix of the stack, drawn as `spec` says and held as `q` says: E(x̂ − x)²/σ².
double weight_noise(const StackSpec& spec, int layer, Weight weight, const Quantization& q);

/// T27. A tensor that is rounded gets independent errors of mean squares v_i; the stream below it changes by Jδ, whose
/// mean square follows from the gradient g = Jᵀ∂L/∂x of a loss whose gradient at the stream is isotropic:
/// E‖Jδ‖² = Σ_i v_i g_i² · N/‖∂L/∂x‖² for a stream of N numbers. This adds up Σ v_i g_i² over the tensors before a
/// depth.
class NoiseBudget {
 public:
  /// Adds `times` v_i g_i² of every entry.
  void add(std::span<const double> square_errors, std::span<const double> gradient, double times = 1.0);
  /// Adds one entry's, or a sum of them: v·g².
  void add(double square_error, double gradient_square) { sum_ += square_error * gradient_square; }
  /// Σx²/E‖Jδ‖² of the stream x at a depth, whose gradient is given, in dB; NaN where nothing was rounded.
  [[nodiscard]] double sqnr(std::span<const double> stream, std::span<const double> gradient) const;

 private:
  double sum_ = 0.0;
};

}  // namespace periscope::theory
