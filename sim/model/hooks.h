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

/// Forward, forward again for the backward pass, or backward, where the tensor is the gradient of the loss with respect
/// to the signal.
enum class Pass { forward, recomputation, backward };

/// Where a signal arises. `sublayer` is 0 … 2L−1, −1 before the first and 2L after the last; of signals of a whole step
/// (is_of_step) it is the step. `part` is the stream if several are parts of x_out.
struct Emission {
  int sublayer;
  Signal signal;
  Pass pass;
  int part = 0;
};

/// Sees every signal once forward, and its gradient once backward, never a recomputation. With several streams the
/// gradient of one holds the others fixed; that of the tensor with which all begin (x_out of sublayer −1) is their sum,
/// unless they are parts of x_out.
class SignalRecorder : public Interface {
 public:
  virtual void on_signal(const Emission& at, const Tensor& x) = 0;
};

/// Replaces a signal by a tensor of the same shape, or returns it. Called in every pass; a recomputation must give the
/// result of the forward pass.
class SignalReplacer : public Interface {
 public:
  [[nodiscard]] virtual Tensor replaced(const Emission& at, const Tensor& x) = 0;
};

/// The lazily computed gradient of one parameter. Valid during the callback.
class ParameterGradient {
 public:
  ParameterGradient(std::function<Tensor()> whole, std::function<Tensor()> squares)
      : compute_(std::move(whole)), compute_squares_(std::move(squares)) {}

  [[nodiscard]] const Tensor& whole() const {
    if (!whole_) whole_ = compute_();
    return *whole_;
  }
  /// f64 [1, n] on the device, with the sum of the entries' squares as their sum: needs no tensor of the parameter's
  /// shape.
  [[nodiscard]] Tensor squares() const { return compute_squares_(); }

 private:
  std::function<Tensor()> compute_;
  std::function<Tensor()> compute_squares_;
  mutable std::optional<Tensor> whole_;
};

/// Sees the gradient of every parameter, from the top of the stack to the bottom.
class GradientRecorder : public Interface {
 public:
  virtual void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) = 0;
};

/// All that attaches to a pass, called in the order of each list. Recorders see the tensors of replacers.
struct Hooks {
  std::vector<SignalRecorder*> recorders = {};
  std::vector<GradientRecorder*> gradients = {};
  std::vector<SignalReplacer*> replacers = {};
};

}  // namespace periscope
