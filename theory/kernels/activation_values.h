#pragma once

#include <Eigen/Core>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "sim/spec/model_spec.h"

/// Elementwise values and derivatives of every activation, in float or double.
namespace periscope::theory {

inline constexpr double gelu_cubic = 0.044715;  // cubic coefficient of tanh-GELU

template <class Real>
Real gelu_tanh_argument(Real x) {
  return std::sqrt(Real{2} / std::numbers::pi_v<Real>) * (x + static_cast<Real>(gelu_cubic) * x * x * x);
}

/// Returns P(z < x) for a standard normal z.
template <class Real>
Real normal_cdf(Real x) {
  return Real{0.5} * std::erfc(-x / std::numbers::sqrt2_v<Real>);
}

template <class Values>
Values sigmoid(const Values& x) {
  return (1 + (-x.array()).exp()).inverse();
}

template <class Values>
Values activation_values(Activation activation, const Values& x) {
  using Real = typename Values::Scalar;
  switch (activation) {
    case Activation::relu: return x.cwiseMax(Real{0});
    case Activation::gelu: return x.unaryExpr([](Real v) { return v * normal_cdf(v); });
    case Activation::silu: return x.cwiseProduct(sigmoid(x));
    case Activation::sigmoid: return sigmoid(x);
    case Activation::gelu_tanh:
      return x.unaryExpr([](Real v) { return Real{0.5} * v * (1 + std::tanh(gelu_tanh_argument(v))); });
  }
  throw std::logic_error("unknown activation");
}

template <class Values>
Values activation_slopes(Activation activation, const Values& x) {
  using Real = typename Values::Scalar;
  switch (activation) {
    case Activation::relu: return (x.array() > 0).template cast<Real>();
    case Activation::gelu:
      return x.unaryExpr([](Real v) {
        const Real density = std::exp(Real{-0.5} * v * v) / std::sqrt(2 * std::numbers::pi_v<Real>);
        return normal_cdf(v) + v * density;
      });
    case Activation::silu: {
      const auto s = sigmoid(x).array().eval();
      return s * (1 + x.array() * (1 - s));
    }
    case Activation::sigmoid: {
      const auto s = sigmoid(x).array().eval();
      return s * (1 - s);
    }
    case Activation::gelu_tanh:
      return x.unaryExpr([](Real v) {
        const Real t = std::tanh(gelu_tanh_argument(v));
        const Real share = Real{0.5} * (1 + t);
        if (t * t == 1) return share;  // v² may overflow
        return share + Real{0.5} * v * (1 - t * t) * std::sqrt(Real{2} / std::numbers::pi_v<Real>) *
                           (1 + 3 * static_cast<Real>(gelu_cubic) * v * v);
      });
  }
  throw std::logic_error("unknown activation");
}

}  // namespace periscope::theory
