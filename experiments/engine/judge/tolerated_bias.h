#pragma once

#include <cstddef>
#include <vector>

#include "experiments/engine/settings/config.h"
#include "sim/core/tensor.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"
#include "sim/spec/weight.h"

/// Tolerated biases of verdicts: due to finite width, and due to rounding if terms cancel.
namespace periscope::judge {

/// Returns the number of keys per query: the harmonic mean over queries, maximum over layers. T without a mask, about
/// T/(ln T + 0.58) with a causal mask.
double mean_keys(const StackSpec& spec);

/// Tolerated finite-width bias of means over seeds, to first order in 1/D (T19). w is the finite-width factor at
/// depths 0 … 2L (theory::Prediction::finite_width), n = mean_keys, and c a constant of [agreement]. The constants were
/// measured, see docs/theory/finite_width.md.
class WidthBias {
 public:
  /// The arguments must outlive this object.
  WidthBias(const StackSpec& spec, const std::vector<double>& factor, const config::AgreementOptions& options)
      : spec_(spec), factor_(factor), options_(options) {}

  /// Returns the bias of a forward statistic, absolute for cosines and relative otherwise: c·w at the input and
  /// c·(w + ψ·ln(1 + n/D)) after a sublayer. The second term comes from overlaps of tokens, of order 1/√D each.
  /// Attention's output, a mean over n keys, has ψ = 1 and the c of cosines; otherwise ψ = ¼. For cosines w is at least
  /// 1/D. Without norms ψ = 4, times 2^m after m gated MLPs, and the bias of moments compounds: exp(bias) − 1.
  [[nodiscard]] double of_signal(Statistic statistic, Signal signal, std::size_t i) const;

  /// Returns the bias of a squared gradient's logarithm, without half its variance over seeds:
  /// c·g·(D/(D − a)·(2 w_2L − w_depth + 4 w_step) + ψ·ln(1 + n/D)). 2 w_2L − w_depth covers the path to the top of the
  /// stack and back to `depth`; w_step, the first step of w, covers the inside of a module and the loss. a is the
  /// number of directions that a norm's backward pass removes: 2 for LayerNorm, else 1. ψ = 1 for attention's matrices
  /// and the score path's share, else ¼. g = 3 in a stack without norms, else 1. Infinity for D ≤ a.
  [[nodiscard]] double of_log_gradient(std::size_t depth, bool of_attention) const;

 private:
  const StackSpec& spec_;
  const std::vector<double>& factor_;
  const config::AgreementOptions& options_;
};

/// Returns true for W_q, W_k, W_v, W_o and W_g.
bool is_of_attention(Weight weight);

/// Rounding error of a squared gradient.
struct RoundingError {
  double size = 0.0;       ///< sum of squares of the terms that cancel
  double measured = 0.0;   ///< value that a run can compute for an exact zero, due to rounding
  double predicted = 0.0;  ///< value that theory can compute for an exact zero, due to rounding
};

/// Returns the rounding error of ‖∂loss/∂W‖² of a layer's matrix, from measured sizes of signals.
/// Terms cancel only in the gradients of queries and keys: dz_t = A_t∘(dA_t − Σ_s A_ts dA_ts) is zero if all values are
/// equal or T = 1, but dA_ts = ⟨dmix_t, v_s⟩ is not. Per head, with independent entries of W_o and W_v,
/// E dA_ts² = e σ_o² g · σ_v² D a, where g is the squared gradient at f_out and a the second moment of A_out. Each of
/// the two terms of dz_t is at most as large, as Σ_s A_ts² ≤ 1; ‖k_s‖²/e = κ is σ_k² D a, or 1 after QK-norm. The
/// square of dW = Σ_t dq_t x_tᵀ is at most λ Σ_t ‖dq_t‖², where λ = D a (1 + (T − 1) c) is the largest eigenvalue of
/// ⟨x_t, x_t'⟩ for a token cosine c, as errors of similar tokens are correlated. Mean square of the terms that cancel:
///   size = 2 T (1 + (T − 1)|c|) H · e σ_o² g · σ_v² D a · κ · D a / ρ,  ρ = 1, or after QK-norm σ_q² D a + ε,
/// and for keys with q in place of k. A run's rounding error relative to the terms is C·u with C = 100·√(2L), so
///   measured = size·(C u)² + n(C η)²,  n the number of entries and η the dtype's smallest positive number.
/// Theory squares its terms before they cancel, and its activation kernels are accurate to about 1e-7 for correlations
/// near 1 (Mehler's series): predicted = 1e-7·size.
RoundingError gradient_rounding(const StackSpec& spec, const Profile& measured, DType dtype, Weight weight, int layer);

/// Returns the rounding error of the stream's mean squared gradient: underflow only, because no terms cancel.
RoundingError stream_rounding(const StackSpec& spec, DType dtype);

/// Returns the tolerated bias of a share p = S/(S+V): p(1−p) times `bias_of_log`, the bias of log(S/V), plus
/// min(variance/(2p(1−p)), 1) for the variance of p over seeds.
double share_bias(double p, double bias_of_log, double variance);

/// Accuracy of a predicted score_share, limited by theory's activation kernels.
inline constexpr double share_accuracy = 1e-6;

}  // namespace periscope::judge
