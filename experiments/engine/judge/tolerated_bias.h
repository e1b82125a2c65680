#pragma once

#include <cstddef>
#include <vector>

#include "experiments/engine/settings/config.h"
#include "sim/core/tensor.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"
#include "sim/spec/weight.h"

/// What a verdict tolerates: the bias of a finite width, and rounding where terms cancel.
namespace periscope::judge {

/// The number of keys that a query sees: the harmonic mean over queries, of all layers' means the largest. T without a
/// mask, about T/(ln T + 0.58) with a causal one.
double mean_keys(const StackSpec& spec);

/// The bias that a verdict tolerates in a mean over seeds because theory is exact only at infinite width, to first
/// order in 1/D (T19). w is the finite-width factor at depths 0 … 2L (theory::Prediction::finite_width), n = mean_keys,
/// and c a constant of `agreement`. The numbers were measured: docs/theory/finite_width.md.
class WidthBias {
 public:
  /// The arguments must outlive this.
  WidthBias(const StackSpec& spec, const std::vector<double>& factor, const config::AgreementOptions& options)
      : spec_(spec), factor_(factor), options_(options) {}

  /// Bias of a forward statistic, absolute for a cosine and else relative: c·(w + s·ln(1 + n/D)) after a sublayer, c·w
  /// at the input. The second term is the overlap of tokens, of order 1/√D each. Attention's output is a mean over n
  /// keys: s = 1, and c is that of cosines. Elsewhere s = ¼. A cosine's w is at least 1/D. Without norms s = 4, times
  /// 2^m after m gated MLPs, and a moment's bias compounds: exp(bias) − 1.
  [[nodiscard]] double of_signal(Statistic statistic, Signal signal, std::size_t i) const;

  /// Bias of a squared gradient's logarithm, not counting half its variance over seeds:
  /// c·g·(D/(D − a)·(2 w_2L − w_depth + 4 w_step) + s·ln(1 + n/D)). w is taken to the top of the stack and back, and
  /// its first step w_step counts for the inside of a module and the loss. a is the number of directions that a norm's
  /// backward pass removes: 1, with LayerNorm 2. s = 1 for attention's own matrices and the score path's share, else ¼;
  /// g = 3 in a stack without norms, else 1. Infinite for D ≤ a.
  [[nodiscard]] double of_log_gradient(std::size_t depth, bool of_attention) const;

 private:
  const StackSpec& spec_;
  const std::vector<double>& factor_;
  const config::AgreementOptions& options_;
};

/// True for W_q, W_k, W_v, W_o.
bool is_of_attention(Weight weight);

/// The rounding error of a squared gradient.
struct GradientFloor {
  double size = 0.0;       ///< sum of the squares of the terms that cancel in it
  double measured = 0.0;   ///< what rounding makes of an exact zero, in the run
  double predicted = 0.0;  ///< the same, in theory
};

/// Floor of ‖∂loss/∂W‖² of a layer's matrix, with the measured sizes.
/// Terms cancel only in the gradients of queries and keys: dz_t = A_t∘(dA_t − Σ_s A_ts dA_ts) is zero if all values are
/// equal, or for one token, but dA_ts = ⟨dmix_t, v_s⟩ is not. Per head, with independent entries of W_o and W_v,
/// E dA_ts² = e σ_o² g · σ_v² D a, with g the squared gradient at f_out and a the second moment of A_out. Each of the
/// two terms of dz_t has at most that size, as Σ_s A_ts² ≤ 1; ‖k_s‖²/e = κ is σ_k² D a, or 1 after QK-norm. A matrix
/// sums dq_t x_tᵀ over tokens, at most λ Σ_t ‖dq_t‖² with λ = D a (1 + (T − 1) c) the largest eigenvalue of ⟨x_t, x_t'⟩
/// at a token cosine c, as the errors of similar tokens are correlated. So the terms that cancel have the mean square
///   size = 2 T (1 + (T − 1)|c|) H · e σ_o² g · σ_v² D a · κ · D a / ρ,  ρ = 1, or after QK-norm σ_q² D a + ε,
/// and for keys with q for k. The run's rounding relative to the terms is C·u with C = 100·√(2L): measured = size·(C
/// u)²
/// + n(C η)², with n entries and η the dtype's smallest number. Theory squares its terms before they cancel, and its
/// activation kernels have correlations near 1 to about 1e-7 (Mehler's series): predicted = 1e-7·size.
GradientFloor gradient_floor(const StackSpec& spec, const Profile& measured, DType dtype, Weight weight, int layer);

/// Floor of the mean square of the stream's gradient, in which nothing cancels: η alone.
GradientFloor stream_floor(const StackSpec& spec, DType dtype);

/// Returns the tolerated bias of a share p = S/(S+V): p(1−p) times the bias of log(S/V), which is a gradient's, plus
/// min(variance/(2p(1−p)), 1) for the variance of p over seeds.
double share_bias(double p, double bias_of_log, double variance);

/// Floor of score_share: the accuracy of theory's kernels.
inline constexpr double share_floor = 1e-6;

}  // namespace periscope::judge
