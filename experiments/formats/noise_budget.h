#pragma once

#include <map>
#include <vector>

#include "experiments/formats/deviation.h"
#include "experiments/formats/holding.h"
#include "sim/model/hooks.h"

/// T27: what roundings do to the stream, to first order, from one pass in f64 alone. A tensor s that is rounded gets
/// independent errors of variance v_i; the stream below it changes by J δ, whose mean square follows from the gradient
/// g_s = Jᵀ g of a loss whose gradient g at the stream is isotropic: E‖Jδ‖² = Σ_i v_i g_s,i² · ND/‖g‖².
namespace periscope::formats {

/// Sums over all roundings between two depths, by part: Σ_i w_i g_i², where v_i is w_i times a number of the format.
struct NoiseBudget {
  /// Floating formats, weights left out: w_i = 4^⌊log₂|x_i|⌋, v_i = w_i·4^−p/3 [part, depth].
  std::vector<double> floating;
  /// Floating formats, weights: Σ σ²‖∂L/∂W‖² of the matrices drawn with each σ, v = σ²·(T26 at σ) [depth].
  std::vector<std::map<double, double>> weights;
  /// Whole numbers: w_i = max|x|² of the entries that share a scale, v_i = w_i/(12Q²) [part, depth]; weights as above,
  /// by layers' fan-in: Σ σ² a²(fan-in) ‖∂L/∂W‖².
  std::vector<double> integer;
  std::vector<double> stream;    ///< Σ x_i² [depth]
  std::vector<double> gradient;  ///< Σ g_i² of the stream [depth]
};

/// Collects the gradients of matrices for a budget.
class WeightGradientSizes final : public GradientRecorder {
 public:
  explicit WeightGradientSizes(const Backend& ops) : ops_(ops) {}
  void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) override;
  /// ‖∂L/∂W‖², 0 of a matrix that is not there.
  [[nodiscard]] double of(const ParameterId& parameter) const;

 private:
  const Backend& ops_;
  std::map<ParameterId, double> squares_;
};

/// The budget of a pass in f64 with gradients, for scales over `scale`. Not for two streams.
NoiseBudget noise_budget(const StackSpec& spec, const TruthKeeper& truth, const WeightGradientSizes& weights,
                         ScaleOver scale);

/// The SQNR of the stream at every depth that the budget predicts for a pass that holds its tensors so, in dB; NaN
/// where sums are not in f32, and where nothing is rounded but to fp32, whose roundings inside ops are not in the
/// budget.
std::vector<double> predicted_sqnr(const StackSpec& spec, const NoiseBudget& budget, const Holding& holding);

/// T26: the SQNR of one rounding of a stack's matrix, drawn as `spec` says, in dB.
double weight_sqnr(const StackSpec& spec, Weight weight, const Quantization& quantization);

}  // namespace periscope::formats
