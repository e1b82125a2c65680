#pragma once

#include "sim/core/statistics.h"
#include "sim/model/context.h"
#include "sim/model/hooks.h"
#include "sim/spec/profile.h"

namespace periscope {

/// Records gradients of one backward pass: grad_sq and log_grad_sq of every signal, mean over the N tokens of
/// ‖∂loss/∂x_t‖², and of the matrices of every layer, ‖∂loss/∂W‖_F²; and the score path's share of every attention
/// module's gradient. Entry 0 of both streams of ResiDual is the gradient of the tensor with which they begin.
class GradientProbe final : public SignalRecorder, public GradientRecorder {
 public:
  explicit GradientProbe(const StackContext& context) : context_(context), record_(context.ops) {}
  void on_signal(const Emission& at, const Tensor& dx) override;
  void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) override;
  /// Adds the gradients to `profile`, which has none yet. Call once, after the pass.
  void take_into(Profile& profile);

 private:
  using Slot = StatisticsRecord::Slot;
  struct Gradient {
    CurvePlace place;
    std::size_t length;  // of the curve
    int index;
    Tensor::Index tokens;  // 1 for a matrix
    Slot slot;
  };
  struct ScoreShare {
    int sublayer;
    Slot scores, values;
  };
  /// Notes the squares of every row.
  Slot measure(const Tensor& x) { return record_.measure(x, {.squares = true}); }
  [[nodiscard]] double squares(Slot slot) const;

  const StackContext& context_;
  StatisticsRecord record_;
  std::vector<Gradient> gradients_;
  std::vector<ScoreShare> shares_;
  Tensor through_queries_, through_keys_;  // of the attention module that is passed just now
};

}  // namespace periscope
