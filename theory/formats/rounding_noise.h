#pragma once

#include <span>

#include "sim/numerics/tensor_format.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/weight.h"

/// Predicts what roundings of tensors do to a stream of hidden states, to first order (T26, T27).
namespace periscope::theory {

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
