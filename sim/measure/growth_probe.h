#pragma once

#include <vector>

#include "sim/core/statistics.h"
#include "sim/model/context.h"
#include "sim/model/hooks.h"

namespace periscope {

/// T15 for one sublayer, q⁺ = α²q + β²s² + 2αβ·√q·s·cos(x, b): q, q⁺ are the mean squares over features of the stream
/// before and after the addition, s² that of the branch b = B_out. Exact for every token, whatever the weights;
/// every term is a mean over tokens. Eq. 4 of the Peri-LN paper is the identity without its last term.
struct Growth {
  double stream;  ///< α²q
  double branch;  ///< β²s²
  double cross;   ///< 2αβ·√q·s·cos(x, b) = 2αβ⟨x, b⟩/D
  double sum;     ///< q⁺, of x_out, or with norm C of what C sees
  double residual;  ///< the worst token's |q⁺ − the three terms|, in units of what rounding explains; NaN if not finite

  [[nodiscard]] bool is_violated() const { return residual > 1.0; }
};

/// Rounding explains |Δq⁺| ≤ (2γ₃(u) + γ₃(u)² + 4γ_{D+8}(2⁻⁵³))·(|α|√q + |β|s)²: each feature of x⁺ is off by at most
/// γ₃(u)(|αx| + |βb|) (two coefficients rounded to the dtype of unit round-off u, two products, one sum), whose mean
/// square is at most (|α|√q + |β|s)²; each of the four mean squares and products is summed over D features in double.
/// γ_n(u) = nu/(1 − nu).
[[nodiscard]] double growth_rounding(double unit_roundoff, Tensor::Index width);

/// Records Growth for every sublayer of one forward pass; its numbers stay on the device until the pass is over.
class GrowthProbe final : public SignalRecorder {
 public:
  explicit GrowthProbe(const StackContext& context) : context_(context), record_(context.ops) {}
  void on_signal(const Emission& at, const Tensor& x) override;
  /// Returns the growth by sublayer. Call it once, after the pass.
  [[nodiscard]] std::vector<Growth> take();

 private:
  struct Sums {
    int sublayer;
    DType dtype;
    Tensor::Index rows, width;
    StatisticsRecord::Slot stream, branch, product, sum;
  };
  [[nodiscard]] Growth growth(const Sums& sums) const;

  const StackContext& context_;
  StatisticsRecord record_;
  Tensor stream_;  // x_in of the current sublayer
  Sums current_{};
  std::vector<Sums> sublayers_;
};

/// β₀ of every sublayer from norm B's parameters alone, the mean square of the branch that it lets into the stream:
/// β²·(mean(γ_k²) + mean(bias_k²)); NaN for a sublayer without norm B.
/// B_out_k = γ_k n_k + bias_k, where mean(n_k²) over the features is 1 but for ε. So the true mean square is
/// β²·mean(γ_k² n_k² + 2γ_k n_k bias_k + bias_k²), and this value is exact if the normalised branch has equal
/// power on every feature (mean over tokens of n_k² = 1) and, with a bias, no mean (of n_k over tokens). Otherwise the
/// difference says how much the branch leans to features with large gains.
[[nodiscard]] std::vector<double> branch_size_from_gains(const StackContext& context);

}  // namespace periscope
