#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/spec/model_spec.h"

/// Bounds on the gradient of an MLP's last matrix W2 (a = W2 h) and on the growth of a stream, for any weights and
/// any input: T14–T16, and what the Peri-LN paper and its reviews state. Proofs: docs/theory/bounds.md.
///
/// Every gradient bound is a factor per token, to be multiplied by ‖h_t‖ (for the Frobenius norm of the whole
/// gradient) or by |h_ti| (for its entries i, j), and averaged over the tokens of the loss.
namespace periscope::theory {

/// A norm that the gradient passes on its way from the loss to W2.
struct NormPass {
  NormKind kind;
  int width;           ///< D
  double gain;         ///< max|γ|
  double mean_square;  ///< of the norm's input over features; LayerNorm: about its mean
  double eps;
};

/// Describes what stands between the loss of one token and the module's output a.
struct GradientPath {
  double wrong_probability = 0.0;                    ///< 1 − p_y, the probability of all wrong labels
  double beta = 1.0;                                 ///< scale of the branch (T1)
  std::optional<double> unembedding = std::nullopt;  ///< ‖U‖₂; none: the logits are the output itself
  std::vector<NormPass> norms = {};                  ///< in any order
};

/// Largest singular value of the Jacobian of y = γ ∘ x̂ if all gains were max|γ|, an upper bound else:
/// max|γ|/√(v+ε), v = mean_square. The direction of x alone has γε/(v+ε)^{3/2}, which is all there is if D = 1
/// (LayerNorm: D = 2). Infinite for a zero input and ε = 0.
double jacobian_norm(const NormPass& norm);

/// max|γ|/√(v+ε) whatever D is.
double gain_over_rms(const NormPass& norm);

/// Returns the norm of a path without the loss: |β| ‖U‖₂ Π jacobian_norm. A factor of 0 wins over an infinite one.
double path_norm(const GradientPath& path);

/// T14, sharp: √2 (1−p_y) · path_norm bounds the Frobenius norm; √2 is the best constant.
double sharp_factor(const GradientPath& path);

/// T14 for a single entry: one norm and no unembedding: (1+√2)/2 (1−p_y) · path_norm, the best constant; no norm:
/// (1−p_y)|β|; anything else: sharp_factor.
double sharp_entry_factor(const GradientPath& path);

/// Propositions 3.1 (2), B.1, C.2, C.3 of the Peri-LN paper: 4 max|γ| √D/‖x‖, x the input of the path's only norm.
double paper_factor(const GradientPath& path);

/// The reviews' version of it (claim G4): 4 max|γ| √(1/D)/‖x‖. False from D = 3 on.
double review_factor(const GradientPath& path);

/// T15: second moment of αx + βb for a stream of rms `stream`, a branch of rms `branch` and their cosine, α = 1
/// and β in `branch`: q + s² + 2 s √q cos.
double grown_second_moment(double stream, double branch, double cosine);

/// T16: rms of a branch after norm B for every input and every weight: max|γ| + rms(bias).
double normed_rms_bound(double max_gain, double bias_rms);

/// T14d for a massive activation: the maximum over k > 0 of √2 max|γ| √D ‖kh‖/‖x + ka‖, which bounds the gradient of a
/// stack with one norm after x + ka: ‖x + ka‖ ≥ k‖a‖ sin θ, θ the angle between a and −x (at most a right angle). x and
/// a: D numbers, for LayerNorm centred.
double massive_ceiling(double max_gain, double hidden, std::span<const double> x, std::span<const double> a);

}  // namespace periscope::theory
