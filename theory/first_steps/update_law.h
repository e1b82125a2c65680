#pragma once

#include <vector>

#include "theory/first_steps/first_steps.h"
#include "theory/predict/gaussian.h"

namespace periscope::theory {

/// What an optimizer makes of an entry of a matrix in some steps: W_τ = ρ_τ W₀ − U_τ(a_1 … a_τ), a_b the gradients of
/// that entry on the batches of steps 1 … τ. Decoupled decay λ leaves ρ_τ = Π_s (1 − η_s λ) of what was there. AdamW's
/// U_τ is Σ_s (ρ_τ/ρ_s) η_s m̂_s/(√v̂_s + ε), SGD's Σ_s (ρ_τ/ρ_s) η_s m_s.
class UpdateLaw {
 public:
  /// `clips`: what clipping multiplies the gradients of every step by.
  UpdateLaw(const OptimizerLaw& optimizer, std::vector<double> clips, double sign_constant_factor);

  [[nodiscard]] int steps() const { return static_cast<int>(optimizer_.rates.size()); }
  /// True where U is a sum of its arguments times constants: SGD.
  [[nodiscard]] bool is_linear() const { return !optimizer_.adam; }

  /// What clipping multiplies the gradients of a batch by from now on.
  void clip(Eigen::Index batch, double factor) {
    clips_[static_cast<std::size_t>(batch)] = factor;
    weights_.col(batch) *= factor;
  }

  /// ρ after so many steps.
  [[nodiscard]] double kept(Eigen::Index done) const;

  /// Means over Gaussian gradients.
  struct Moments {
    Vector slope;         ///< E ∂U_τ/∂a_b [τ]
    double square = 0.0;  ///< E U_τ²
  };
  /// For gradients of covariance c [τ, τ]; τ may be 0. Slopes of AdamW are integrals, right to 1e-4, ε with them, and
  /// so is U² of one step, and of two where ε is small beside the first gradient. Else U² comes from a lattice, right
  /// to about 1 %. The slope for a batch without any gradient is 0.
  [[nodiscard]] Moments moments(const Matrix& c) const;

  /// U_τ, entry by entry, of the gradients of τ ≥ 1 steps.
  [[nodiscard]] Eigen::MatrixXf taken_off(const std::vector<Eigen::MatrixXf>& gradients) const;

 private:
  /// 1 − ηλ of a step.
  [[nodiscard]] double left_by(std::size_t step) const {
    return 1.0 - optimizer_.rates[step] * optimizer_.weight_decay;
  }

  /// E U², steps before `from` left out of U, for clipped gradients of covariance L Lᵀ, by a lattice.
  [[nodiscard]] double lattice_square(const Matrix& lower, double eps, Eigen::Index from) const;

  OptimizerLaw optimizer_;
  std::vector<double> clips_;
  double factor_;
  Matrix weights_;           // of SGD: U_τ = Σ_b weights(τ, b) a_b
  Eigen::MatrixXf normals_;  // [lattice points, steps]
};

}  // namespace periscope::theory
