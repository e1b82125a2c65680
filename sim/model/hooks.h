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

/// Kind of pass: forward, forward again for the backward pass, or backward. In the backward pass the tensor is the
/// gradient of the loss with respect to the signal.
enum class Pass { forward, recomputation, backward };

/// Position of a signal. `sublayer` is 0 … 2L−1, −1 before the first and 2L after the last sublayer; for signals of a
/// step (is_of_step) it is the step's index. `part` is the index of the stream if several streams are parts of x_out.
struct Emission {
  int sublayer;
  Signal signal;
  Pass pass;
  int part = 0;
};

/// Receives every signal once in the forward pass and its gradient once in the backward pass, but not in
/// recomputations. With several streams, the gradient of one stream treats the others as constant. The gradient of
/// their common start (x_out of sublayer −1) is the sum over the streams, unless they are parts of x_out.
class SignalRecorder : public Interface {
 public:
  virtual void on_signal(const Emission& at, const Tensor& x) = 0;
};

/// Replaces a signal by a tensor of the same shape, or returns it unchanged. Called in every pass; in a recomputation
/// it must return the same tensor as in the forward pass.
class SignalReplacer : public Interface {
 public:
  [[nodiscard]] virtual Tensor replaced(const Emission& at, const Tensor& x) = 0;
};

/// Gradient of one parameter, computed on demand. Valid only during the callback.
class ParameterGradient {
 public:
  ParameterGradient(std::function<Tensor()> whole, std::function<Tensor()> squares)
      : compute_(std::move(whole)), compute_squares_(std::move(squares)) {}

  [[nodiscard]] const Tensor& whole() const {
    if (!whole_) whole_ = compute_();
    return *whole_;
  }
  /// Returns an f64 tensor [1, n] on the device whose entries sum to the squared norm, without computing whole().
  [[nodiscard]] Tensor squares() const { return compute_squares_(); }

 private:
  std::function<Tensor()> compute_;
  std::function<Tensor()> compute_squares_;
  mutable std::optional<Tensor> whole_;
};

/// Receives the gradient of every parameter, from the last sublayer to the first.
class GradientRecorder : public Interface {
 public:
  virtual void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) = 0;
};

/// Callbacks of a pass, called in the order of each list. Recorders receive the tensors returned by replacers.
struct Hooks {
  std::vector<SignalRecorder*> recorders = {};
  std::vector<GradientRecorder*> gradients = {};
  std::vector<SignalReplacer*> replacers = {};
};

}  // namespace periscope
