#pragma once

#include <vector>

#include "sim/spec/model_spec.h"
#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// The state of the forward theory: two token kernels of a signal with D features.
struct TokenKernel {
  Matrix product;  ///< K_tt' = E⟨x_t, x_t'⟩/D (section 0)
  Matrix mean;     ///< E[mean(x_t) mean(x_t')], mean over features: O(K/D), what LayerNorm removes

  /// Kernel of a signal whose features are independent and centred.
  static TokenKernel of_independent_features(const Matrix& product, int width) {
    return {product, product / static_cast<double>(width)};
  }
};

/// T6: the kernel of a·x + b·y for y independent of x and centred.
TokenKernel combined(double a, const TokenKernel& x, double b, const TokenKernel& y);

/// K of the stack's input: second_moment · ((1−c)·1 + c) for Gaussian input. For token ids scale²·second_moment where
/// the ids are equal, times σ²·fan-in of a projection, plus second_moment for learned positions where the places in the
/// sequence are equal (ids may be those of several sequences of input.tokens, one after the other) and everywhere for a
/// token type. With scales every table has its own second moment (stddev_of).
TokenKernel input_kernel(const StackSpec& spec, const std::vector<int>& ids);

/// Mean over the pairs of distinct tokens of K_tt'/√(K_tt K_t't'). NaN for one token.
double token_cosine(const Matrix& k);

/// E max |x_ti| for x_ti ~ N(0, second_moment_t) independent over the tokens t and `width` features, by quadrature of
/// ∫ 1 − Π_t erf(m/√(2 q_t))^width dm: T18 without its asymptotic expansion. An upper bound for correlated tokens.
double expected_maximum(const Vector& second_moment, int width);

/// T18, leading order: the largest of n ≫ 1 Gaussian entries of standard deviation σ lies near
/// σ·(√(2 ln n) − (ln ln n + ln 4π)/(2√(2 ln n))).
double typical_maximum(double n, double sigma);

}  // namespace periscope::theory
