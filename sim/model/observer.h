#pragma once

#include "sim/core/tensor.h"
#include "sim/model/weights.h"
#include "sim/spec/profile.h"

namespace periscope {

/// Sees the signals of a forward pass as they arise. Everything that is recorded attaches here. No function has a
/// default here: an observer that passes signals on to others would lose what it forgets. One that wants only some
/// of the signals derives from IdleObserver.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// The stream that enters the stack [N, D], after the embedding norm.
  virtual void on_input(const Tensor& x) = 0;
  /// A signal [N, D] of sublayer 0 … 2L−1. Sites come in the order of Signal; r_out only with two streams.
  virtual void on_site(int sublayer, Signal site, const Tensor& x) = 0;
  /// A signal inside the module of sublayer 0 … 2L−1 [N, its width], between A_out and f_out.
  virtual void on_inside(int sublayer, Signal place, const Tensor& x) = 0;
};

/// Wants nothing.
class IdleObserver : public Observer {
 public:
  void on_input(const Tensor& /*x*/) override {}
  void on_site(int /*sublayer*/, Signal /*site*/, const Tensor& /*x*/) override {}
  void on_inside(int /*sublayer*/, Signal /*place*/, const Tensor& /*x*/) override {}
};

/// Sees the gradients of the loss as they arise in a backward pass, from the top of the stack to its bottom.
/// None of them is kept: an observer keeps what it wants. Without defaults, like Observer: see IdleGradientObserver.
class GradientObserver {
 public:
  GradientObserver() = default;
  GradientObserver(const GradientObserver&) = delete;
  GradientObserver& operator=(const GradientObserver&) = delete;
  virtual ~GradientObserver() = default;

  /// Gradient of the stream that enters the stack [N, D], after the embedding norm. With two streams this
  /// is the whole gradient: both begin with this tensor.
  virtual void on_input(const Tensor& dx) = 0;
  /// Gradient of a signal [N, D] of a sublayer. With two streams, that of x_in and x_out holds r fixed and
  /// that of r_out holds x fixed.
  virtual void on_site(int sublayer, Signal site, const Tensor& dx) = 0;
  /// Gradient of a matrix, like WeightSource::matrix; the layer of what no layer owns is 0.
  virtual void on_weight(int layer, Weight weight, const Tensor& dw) = 0;
  /// Gradient of a matrix's bias, like WeightSource::bias; only of one that exists.
  virtual void on_bias(int layer, Weight weight, const Tensor& dbias) = 0;
  /// Gradient of the input of a matrix [N, fan_in], as far as it comes through this matrix: several may read one
  /// input.
  virtual void on_weight_input(int layer, Weight weight, const Tensor& dx) = 0;
  /// Gradient of a norm's gain and bias, like WeightSource::norm; dbias is empty if there is no bias. The
  /// sublayer is 0 for the embedding norm, 2L for the final norm and for that of the head.
  virtual void on_norm(int sublayer, NormSite site, const Tensor& dgain, const Tensor& dbias) = 0;
};

/// Wants nothing.
class IdleGradientObserver : public GradientObserver {
 public:
  void on_input(const Tensor& /*dx*/) override {}
  void on_site(int /*sublayer*/, Signal /*site*/, const Tensor& /*dx*/) override {}
  void on_weight(int /*layer*/, Weight /*weight*/, const Tensor& /*dw*/) override {}
  void on_bias(int /*layer*/, Weight /*weight*/, const Tensor& /*dbias*/) override {}
  void on_weight_input(int /*layer*/, Weight /*weight*/, const Tensor& /*dx*/) override {}
  void on_norm(int /*sublayer*/, NormSite /*site*/, const Tensor& /*dgain*/, const Tensor& /*dbias*/) override {}
};

}  // namespace periscope
