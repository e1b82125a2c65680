#pragma once

#include <vector>

#include "sim/spec/model_spec.h"
#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// State of the forward theory: two kernels [T, T] over the tokens of a signal with D features.
struct TokenKernel {
  Matrix product;  ///< K_tt' = E⟨x_t, x_t'⟩/D
  Matrix mean;     ///< E[mean(x_t) mean(x_t')], mean over features; O(K/D), removed by LayerNorm

  /// Returns the kernels of a signal whose features are independent and centred.
  static TokenKernel of_independent_features(const Matrix& product, int width) {
    return {product, product / static_cast<double>(width)};
  }
};

/// Returns the kernel of a·x + b·y where y is centred and independent of x (T6).
TokenKernel combined(double a, const TokenKernel& x, double b, const TokenKernel& y);

/// Returns the kernel of the stack's input. Gaussian input: second_moment·((1−c)·δ_tt' + c), c: correlation. Token ids:
/// scale²·second_moment where ids are equal, times σ²·fan-in if the embedding is projected. Learned positions add
/// second_moment where positions in the sequence are equal; a token type adds it to every entry. `ids` may concatenate
/// several sequences of length input.tokens. With given scales every table has its own second moment.
TokenKernel input_kernel(const StackSpec& spec, const std::vector<int>& ids);

/// Returns the mean of K_tt'/√(K_tt K_t't') over pairs of distinct tokens. NaN for one token.
double token_cosine(const Matrix& k);

/// Returns E max |x_ti| for x_ti ~ N(0, q_t), q = second_moment, independent over tokens t and `width` features, by
/// quadrature of ∫ 1 − Π_t erf(m/√(2 q_t))^width dm (T18 without expansion). An upper bound for correlated tokens.
double expected_maximum(const Vector& second_moment, int width);

/// Returns the typical maximum of n ≫ 1 Gaussian entries to leading order (T18):
/// σ·(√(2 ln n) − (ln ln n + ln 4π)/(2√(2 ln n))).
double typical_maximum(double n, double sigma);

}  // namespace periscope::theory
