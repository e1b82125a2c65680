#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/interface.h"
#include "sim/core/tensor.h"
#include "sim/spec/signal.h"
#include "sim/spec/weight.h"

namespace periscope {

/// The pass in which a signal arises: forward, forward once more because the backward pass needs it, or backward, where
/// it is the gradient of the loss with respect to the signal.
enum class Pass { forward, recomputation, backward };

/// The place and the pass in which a signal arises. `sublayer` is 0 … 2L−1, −1 before the first and 2L after the last;
/// of the signals of a whole step (is_of_step) it is the step, from 0. `part` is the stream where several are parts of
/// x_out.
struct Emission {
  int sublayer;
  Signal signal;
  Pass pass;
  int part = 0;
};

/// Sees every signal as it arises: once forward and, in a backward pass, its gradient once, never a recomputation.
/// With several streams the gradient of one holds the others fixed; that of the tensor with which all begin (x_out of
/// sublayer −1) is the sum of them, unless they are parts of x_out.
class SignalRecorder : public Interface {
 public:
  virtual void on_signal(const Emission& at, const Tensor& x) = 0;
};

/// Puts another tensor of the same shape in a signal's place, or lets it pass by returning it. It is asked in every
/// pass, and must answer a recomputation as it answered the forward pass.
class SignalReplacer : public Interface {
 public:
  [[nodiscard]] virtual Tensor replaced(const Emission& at, const Tensor& x) = 0;
};

/// The gradient of one parameter, computed only when it is asked for. Valid during the callback.
class ParameterGradient {
 public:
  ParameterGradient(std::function<Tensor()> whole, std::function<Tensor()> squares)
      : compute_(std::move(whole)), compute_squares_(std::move(squares)) {}

  /// The gradient itself, of the parameter's shape.
  [[nodiscard]] const Tensor& whole() const {
    if (!whole_) whole_ = compute_();
    return *whole_;
  }
  /// f64 [1, n] on the device, numbers whose sum is that of the entries' squares: no tensor of the parameter's shape
  /// has to be made for them, and a recorder may bring those of a whole pass to the host at once (StatisticsRecord).
  [[nodiscard]] Tensor squares() const { return compute_squares_(); }

 private:
  std::function<Tensor()> compute_;
  std::function<Tensor()> compute_squares_;
  mutable std::optional<Tensor> whole_;
};

/// Is told the gradient of every parameter, from the top of the stack to its bottom.
class GradientRecorder : public Interface {
 public:
  virtual void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) = 0;
};

/// All that attaches to a pass through a stack, each told in the order of its list. Replacers come first: recorders
/// see what goes on.
struct Hooks {
  std::vector<SignalRecorder*> recorders = {};
  std::vector<GradientRecorder*> gradients = {};
  std::vector<SignalReplacer*> replacers = {};
};

}  // namespace periscope
