#include "theory/modules/inside_modules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/spec/weight.h"

namespace periscope::theory {
namespace {

/// The two integrals of V-norm for heads of e features, as functions of ρ². The midpoint rule over [0, π/2] converges
/// spectrally: the integrand is periodic and smooth. Above `max_features` the first order in 1/e is as accurate.
class CosineOfGaussians {
 public:
  explicit CosineOfGaussians(int features) : e_(features) {
    if (features > max_features) return;
    const auto count = static_cast<Index>(std::max(64.0, 8.0 * std::sqrt(features)));
    sin2_.resize(count);
    weight_.resize(count);
    double all = 0.0;
    for (Index i = 0; i < count; ++i) {
      const double angle = (static_cast<double>(i) + 0.5) / static_cast<double>(count) * std::numbers::pi / 2.0;
      const double sine = std::sin(angle);
      const double cosine = std::cos(angle);
      sin2_(i) = sine * sine;
      weight_(i) = std::pow(cosine, features);
      all += std::pow(cosine, features - 1);
    }
    weight_ /= all;
  }

  [[nodiscard]] double value(double rho2) const {
    if (weight_.size() == 0) return 1.0 - (1.0 - rho2) / (2.0 * e_);
    return (weight_.array() / (1.0 - rho2 * sin2_.array()).sqrt()).sum();
  }
  [[nodiscard]] double slope(double rho2) const {
    if (weight_.size() == 0) return 1.0 - (1.0 - 3.0 * rho2) / (2.0 * e_);
    const auto rest = 1.0 - rho2 * sin2_.array();
    return (weight_.array() / (rest * rest.sqrt())).sum();
  }

 private:
  static constexpr int max_features = 4096;
  double e_;
  Vector sin2_;
  Vector weight_;
};

/// Returns factor(c_tt')·f(ρ²)/√(r_t r_t') for every pair of tokens, r_t = c_tt + ε; 0 where r_t or r_t' is 0.
template <class F, class G>
Matrix for_token_pairs(const Matrix& c, double eps, const F& f, const G& factor) {
  const Vector variance = c.diagonal().cwiseMax(0.0);
  const Vector scale = variance.unaryExpr([eps](double v) { return v + eps > 0.0 ? 1.0 / std::sqrt(v + eps) : 0.0; });
  Matrix out(c.rows(), c.cols());
  for (Index t = 0; t < c.cols(); ++t) {
    for (Index s = t; s < c.rows(); ++s) {
      const double both = variance(s) * variance(t);
      const double rho2 = s == t ? 1.0 : both > 0.0 ? std::min(1.0, c(s, t) * c(s, t) / both) : 0.0;
      out(s, t) = out(t, s) = factor(c(s, t)) * scale(s) * scale(t) * f(rho2);
    }
  }
  return out;
}

}  // namespace

Matrix normed_values(const Matrix& c, int features, double eps) {
  const CosineOfGaussians cosine(features);
  return for_token_pairs(
      c, eps, [&](double rho2) { return cosine.value(rho2); }, [](double x) { return x; });
}

Matrix normed_values_slope(const Matrix& c, int features, double eps) {
  const CosineOfGaussians cosine(features);
  return for_token_pairs(
      c, eps, [&](double rho2) { return cosine.slope(rho2); }, [](double) { return 1.0; });
}

GateKernels gate_kernels(const StackSpec& spec, int layer, const Matrix& input) {
  const double sigma = stddev_of(spec, layer, Weight::attention_gate);
  const Matrix c = sigma * sigma * spec.model.width * input;
  return {activation_kernel(Activation::sigmoid, c), derivative_kernel(Activation::sigmoid, c)};
}

Vector inner_square(const Matrix& kernel, double eps) { return kernel.diagonal().array() + eps; }

Matrix through_inner_norm(const Matrix& x, const Vector& r) {
  const Vector scale = r.unaryExpr([](double v) { return v > 0.0 ? 1.0 / std::sqrt(v) : 0.0; });
  return scale.asDiagonal() * x * scale.asDiagonal();
}

}  // namespace periscope::theory
