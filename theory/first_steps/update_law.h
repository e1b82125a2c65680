#pragma once

#include <vector>

#include "theory/first_steps/first_steps.h"
#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// An entry of a matrix after τ steps of an optimizer: W_τ = ρ_τ W₀ − U_τ(a_1 … a_τ), a_b the gradients of that entry
/// on the batches of steps 1 … τ. Decoupled decay λ leaves ρ_τ = Π_s (1 − η_s λ) of the initial value. AdamW's U_τ is
/// Σ_s (ρ_τ/ρ_s) η_s m̂_s/(√v̂_s + ε), SGD's Σ_s (ρ_τ/ρ_s) η_s m_s.
class UpdateLaw {
 public:
  /// `clips`: the factor of every step's gradients from clipping.
  UpdateLaw(const OptimizerLaw& optimizer, std::vector<double> clips, double sign_constant_factor);

  [[nodiscard]] int steps() const { return static_cast<int>(optimizer_.rates.size()); }
  /// True if U is linear in the gradients: SGD.
  [[nodiscard]] bool is_linear() const { return !optimizer_.adam; }

  /// Sets the factor of a batch's gradients from clipping.
  void clip(Index batch, double factor) {
    clips_[static_cast<std::size_t>(batch)] = factor;
    weights_.col(batch) *= factor;
  }

  /// Returns ρ after `done` steps.
  [[nodiscard]] double kept(Index done) const;

  /// Means over Gaussian gradients.
  struct Moments {
    Vector slope;         ///< E ∂U_τ/∂a_b [τ]
    double square = 0.0;  ///< E U_τ²
  };
  /// Returns the moments for gradients of covariance c [τ, τ]; τ may be 0. AdamW's slopes are integrals, accurate to
  /// 1e-4, as is E U² of one step, or of two if ε is far below the first gradient; else E U² is a mean over a lattice,
  /// accurate to about 1 %. The slope for a batch without any gradient is 0.
  [[nodiscard]] Moments moments(const Matrix& c) const;

  /// Returns U_τ, entry by entry, from the gradients of τ ≥ 1 steps.
  [[nodiscard]] Eigen::MatrixXf taken_off(const std::vector<Eigen::MatrixXf>& gradients) const;

 private:
  /// Returns 1 − ηλ of a step.
  [[nodiscard]] double left_by(std::size_t step) const {
    return 1.0 - optimizer_.rates[step] * optimizer_.weight_decay;
  }

  /// Returns E U² as a mean over a lattice, without the steps before `from` in U, for clipped gradients of covariance
  /// lower·lowerᵀ.
  [[nodiscard]] double lattice_square(const Matrix& lower, double eps, Index from) const;

  OptimizerLaw optimizer_;
  std::vector<double> clips_;
  double factor_;
  Matrix weights_;           // of SGD: U_τ = Σ_b weights(τ, b) a_b
  Eigen::MatrixXf normals_;  // [lattice points, steps]
};

}  // namespace periscope::theory
