#pragma once

#include <vector>

#include "sim/core/statistics.h"
#include "sim/model/context.h"
#include "sim/model/hooks.h"
#include "sim/spec/profile.h"

namespace periscope {

/// Records gradients of one backward pass: grad_sq and log_grad_sq of every signal (mean of ‖∂loss/∂x_t‖² over the N
/// tokens) and of every layer's matrices (‖∂loss/∂W‖_F²), and score_share of every attention module. With ResiDual,
/// entry 0 of both streams is the gradient of the tensor at which both start.
class GradientProbe final : public SignalRecorder, public GradientRecorder {
 public:
  explicit GradientProbe(const StackContext& context) : context_(context), record_(context.ops) {}
  void on_signal(const Emission& at, const Tensor& dx) override;
  void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) override;
  /// Adds the gradients to `profile`, which must not contain any. Call once, after the pass.
  void take_into(Profile& profile);
  /// Returns ‖∂loss/∂x_t‖² of the stream [depths, tokens], NaN where it is unknown. Call after `take_into`.
  [[nodiscard]] std::vector<double> token_squares() const;

 private:
  using Slot = StatisticsRecord::Slot;
  struct Gradient {
    CurvePlace place;
    std::size_t length;  // length of the curve
    int index;
    Tensor::Index tokens;  // number of tokens; 1 for a matrix
    Slot slot;
  };
  struct ScoreShare {
    int sublayer;
    Slot scores, values;
  };
  /// Requests the squared norm of every row.
  Slot measure(const Tensor& x) { return record_.measure(x, {.squares = true}); }
  [[nodiscard]] double squares(Slot slot) const;

  const StackContext& context_;
  StatisticsRecord record_;
  std::vector<Gradient> gradients_;
  std::vector<ScoreShare> shares_;
  Tensor through_queries_, through_keys_;  // gradients of q_in and k_in of the current sublayer
};

}  // namespace periscope
