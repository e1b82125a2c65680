#pragma once

#include <vector>

#include "theory/first_steps/first_steps.h"
#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// An entry of a matrix after τ steps of an optimizer: W_τ = ρ_τ W₀ − U_τ(a_1 … a_τ), a_b the entry's gradient on the
/// batch of step b, and ρ_τ = Π_i (1 − η_i λ) for decoupled weight decay λ. U_τ is Σ_i (ρ_τ/ρ_i) η_i m̂_i/(√v̂_i + ε)
/// for AdamW, Σ_i (ρ_τ/ρ_i) η_i m_i for SGD.
class UpdateLaw {
 public:
  /// `clips`: clipping factors of the gradients, one per step.
  UpdateLaw(const OptimizerLaw& optimizer, std::vector<double> clips, double sign_constant_factor);

  [[nodiscard]] int steps() const { return static_cast<int>(optimizer_.rates.size()); }
  /// Returns true if U is linear in the gradients (SGD).
  [[nodiscard]] bool is_linear() const { return !optimizer_.adam; }

  /// Sets the clipping factor of a batch's gradients.
  void clip(Index batch, double factor) {
    clips_[static_cast<std::size_t>(batch)] = factor;
    weights_.col(batch) *= factor;
  }

  /// Returns ρ after `done` steps.
  [[nodiscard]] double decay_factor(Index done) const;

  /// Moments of U_τ over Gaussian gradients.
  struct Moments {
    Vector slope;         ///< E ∂U_τ/∂a_b [τ]
    double square = 0.0;  ///< E U_τ²
  };
  /// Returns the moments for gradients of covariance c [τ, τ]; τ may be 0. For AdamW, slopes are integrals, accurate to
  /// 1e-4. So is E U² of one step, and of two steps if ε is far below the first gradient. Otherwise E U² is a mean over
  /// a lattice, accurate to about 1 %. The slope for a batch with zero gradient is 0.
  [[nodiscard]] Moments moments(const Matrix& c) const;

  /// Returns U_τ elementwise, from the gradients of τ ≥ 1 steps.
  [[nodiscard]] Eigen::MatrixXf update_of(const std::vector<Eigen::MatrixXf>& gradients) const;

 private:
  /// Returns 1 − ηλ of a step.
  [[nodiscard]] double step_decay(std::size_t step) const {
    return 1.0 - optimizer_.rates[step] * optimizer_.weight_decay;
  }

  /// Returns E U² as a mean over a lattice, for clipped gradients of covariance lower·lowerᵀ. Steps before `from` are
  /// excluded from U.
  [[nodiscard]] double lattice_square(const Matrix& lower, double eps, Index from) const;

  OptimizerLaw optimizer_;
  std::vector<double> clips_;
  double factor_;
  Matrix weights_;           // SGD: U_τ = Σ_b weights(τ, b) a_b
  Eigen::MatrixXf normals_;  // [lattice points, steps]
};

}  // namespace periscope::theory
