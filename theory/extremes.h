#pragma once

#include "theory/gaussian.h"

namespace periscope::theory {

/// T18, leading order: the largest of n ≫ 1 Gaussian entries of standard deviation σ lies near
/// σ·(√(2 ln n) − (ln ln n + ln 4π)/(2√(2 ln n))).
double typical_maximum(double n, double sigma);

/// E max |x_ti| for x_ti ~ N(0, second_moment_t) independent over the tokens t and `width` features, by
/// quadrature of ∫ 1 − Π_t erf(m/√(2 q_t))^width dm: T18 without its asymptotic expansion. Tokens that
/// resemble each other have a smaller maximum: then this is an upper value.
double expected_maximum(const Vector& second_moment, int width);

}  // namespace periscope::theory
