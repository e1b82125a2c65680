#include "theory/first_steps/activation_values.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace periscope::theory {
namespace {

using Values = Eigen::MatrixXf;

constexpr float cubic = 0.044715F;  // of the tanh form of GELU
const float root_two_over_pi = std::sqrt(2.0F / std::numbers::pi_v<float>);

float normal_share(float x) { return 0.5F * std::erfc(-x / std::numbers::sqrt2_v<float>); }

float normal_density(float x) { return std::exp(-0.5F * x * x) / std::sqrt(2.0F * std::numbers::pi_v<float>); }

float gelu_tanh_value(float x) { return 0.5F * x * (1.0F + std::tanh(root_two_over_pi * (x + cubic * x * x * x))); }

float gelu_tanh_slope(float x) {
  const float t = std::tanh(root_two_over_pi * (x + cubic * x * x * x));
  return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * root_two_over_pi * (1.0F + 3.0F * cubic * x * x);
}

Values sigmoid(const Values& x) { return (1.0F + (-x.array()).exp()).inverse(); }

}  // namespace

Values activation_values(Activation activation, const Values& x) {
  switch (activation) {
    case Activation::relu: return x.cwiseMax(0.0F);
    case Activation::gelu: return x.unaryExpr([](float v) { return v * normal_share(v); });
    case Activation::silu: return x.cwiseProduct(sigmoid(x));
    case Activation::sigmoid: return sigmoid(x);
    case Activation::gelu_tanh: return x.unaryExpr(&gelu_tanh_value);
  }
  throw std::logic_error("unknown activation");
}

Values activation_slopes(Activation activation, const Values& x) {
  switch (activation) {
    case Activation::relu: return (x.array() > 0.0F).cast<float>();
    case Activation::gelu: return x.unaryExpr([](float v) { return normal_share(v) + v * normal_density(v); });
    case Activation::silu: {
      const Eigen::ArrayXXf s = sigmoid(x).array();
      return s * (1.0F + x.array() * (1.0F - s));
    }
    case Activation::sigmoid: {
      const Eigen::ArrayXXf s = sigmoid(x).array();
      return s * (1.0F - s);
    }
    case Activation::gelu_tanh: return x.unaryExpr(&gelu_tanh_slope);
  }
  throw std::logic_error("unknown activation");
}

}  // namespace periscope::theory
