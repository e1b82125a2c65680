#pragma once

#include <cstddef>
#include <vector>

#include "experiments/engine/settings/config.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/profile.h"
#include "sim/spec/weight.h"

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

}  // namespace periscope::judge
