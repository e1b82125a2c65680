#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/spec/model_spec.h"

/// Bounds on the gradient of an MLP's last matrix W2 (a = W2 h) and on the growth of a stream, for any weights and any
/// input (T14–T16); proofs in docs/theory/bounds.md. Includes the bounds in the Peri-LN paper and its reviews.
/// Every gradient bound is a factor per token. Multiply it by ‖h_t‖ to bound the Frobenius norm of the gradient, or by
/// |h_ti| to bound entry (i, j), and average over the tokens of the loss.
namespace periscope::theory {

/// A norm on the gradient's path from the loss to W2.
struct NormPass {
  NormKind kind;
  int width;           ///< D
  double gain;         ///< max|γ|
  double mean_square;  ///< mean square of the norm's input over features; LayerNorm: variance
  double eps;
};

/// Path of the gradient from the loss of one token to the module's output a.
struct GradientPath {
  double wrong_probability = 0.0;                    ///< 1 − p_y, the total probability of wrong labels
  double beta = 1.0;                                 ///< scale of the branch (T1)
  std::optional<double> unembedding = std::nullopt;  ///< ‖U‖₂; nullopt: the logits are the stack's output
  std::vector<NormPass> norms = {};                  ///< norms on the path, in any order
};

/// Returns max|γ|/√(v+ε), v = mean_square: the largest singular value of the Jacobian of y = γ∘x̂ for equal gains, an
/// upper bound otherwise. Along x the singular value is γε/(v+ε)^{3/2}, which is the only one if D = 1 (LayerNorm:
/// D = 2). Infinite for a zero input and ε = 0.
double jacobian_norm(const NormPass& norm);

/// Returns max|γ|/√(v+ε) for every D.
double gain_over_rms(const NormPass& norm);

/// Returns the norm bound of a path without the loss, |β| ‖U‖₂ Π jacobian_norm. 0·∞ counts as 0.
double path_norm(const GradientPath& path);

/// Returns √2 (1−p_y)·path_norm, which bounds the Frobenius norm (T14). √2 is the best constant.
double sharp_factor(const GradientPath& path);

/// Returns the bound for a single entry (T14): (1+√2)/2 (1−p_y)·path_norm (the best constant) for one norm without
/// unembedding; (1−p_y)|β| without norm and unembedding; sharp_factor otherwise.
double sharp_entry_factor(const GradientPath& path);

/// Bound of the Peri-LN paper (Propositions 3.1 (2), B.1, C.2, C.3): 4 max|γ| √D/‖x‖, x the input of the only norm.
double paper_factor(const GradientPath& path);

/// The bound as quoted in the reviews (claim G4): 4 max|γ| √(1/D)/‖x‖. False for D ≥ 3.
double review_factor(const GradientPath& path);

/// Returns the second moment of x + b (T15), q + s² + 2 s √q cos, for rms √q = stream and s = branch (including β).
double grown_second_moment(double stream, double branch, double cosine);

/// Returns the bound on the rms of a branch after norm B for any input and weights (T16): max|γ| + rms(bias).
double normed_rms_bound(double max_gain, double bias_rms);

/// Bound on the gradient for a massive activation (T14d), in a stack with one norm after x + ka. Returns the maximum
/// over k > 0 of √2 max|γ| √D ‖kh‖/‖x + ka‖, using ‖x + ka‖ ≥ k‖a‖ sin θ, θ the angle between a and −x, capped at 90°.
/// x and a have D entries; for LayerNorm they must be centred.
double massive_ceiling(double max_gain, double hidden, std::span<const double> x, std::span<const double> a);

}  // namespace periscope::theory
