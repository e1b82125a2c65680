#pragma once

/// Closed laws that the kernel recursion must reproduce (T12, T18): what it is tested against.
namespace periscope::theory {

/// T12a, Eq. 4 of the Peri-LN paper: Peri-LN's second moment after `sublayers` sublayers, at any width and
/// any weight scale: q₀ + Σ γ².
double peri_second_moment(double q0, double gamma, int sublayers);

/// T12b: Pre-LN in Xiong's setting (uniform bidirectional attention, all matrices D×D with N(0, 1/D), ReLU):
/// growth of the second moment over one layer for T tokens of mean cosine c: (1 + (T−1)c)/T + 1/2.
double xiong_pre_increment(int tokens, double token_cosine);

/// T12c: mean square of the sum before the second norm of a Post-LN layer in Xiong's setting: 1 + 1/2.
double xiong_post_sum();

/// T12e: LNS adds branch second moments f/layer: q₀ + (f_attention + f_mlp)·H_layers for branches whose
/// kernel is quadratic in the input gain, H the harmonic number.
double lns_second_moment(double q0, double branch_per_layer, int layers);

/// T12g: branch over stream, √(f/q), of a Pre-LN stack with a constant branch second moment f: after l
/// sublayers q = q₀ + l·f.
double pre_branch_ratio(double q0, double branch, int sublayer);

/// T18, leading order: the largest of n ≫ 1 Gaussian entries of standard deviation σ lies near
/// σ·(√(2 ln n) − (ln ln n + ln 4π)/(2√(2 ln n))).
double typical_maximum(double n, double sigma);

}  // namespace periscope::theory
