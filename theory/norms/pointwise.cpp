#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "theory/kernels/discrete_rule.h"
#include "theory/norms/norm_law.h"

namespace periscope::theory {
namespace {

using std::numbers::inv_sqrtpi;
using std::numbers::pi;

/// for_pairs, with a correlation of at most 1 in spite of rounding.
template <class Pair>
Matrix over_pairs(const Matrix& c, const Pair& pair) {
  return for_pairs(c, [&](double a, double b, double ab) {
    const double limit = std::sqrt(a * b);
    return pair(a, b, std::clamp(ab, -limit, limit));
  });
}

// E erf(u)erf(v) = 2/π asin(2c/√((1+2a)(1+2b))), E erf'(u)erf'(v) = 4/π /√((1+2a)(1+2b) − 4c²).
Matrix erf_kernel(const Matrix& c) {
  return over_pairs(c, [](double a, double b, double ab) {
    return 2.0 / pi * std::asin(2.0 * ab / std::sqrt((1.0 + 2.0 * a) * (1.0 + 2.0 * b)));
  });
}
Matrix erf_derivatives(const Matrix& c) {
  return over_pairs(c, [](double a, double b, double ab) {
    return 4.0 / pi / std::sqrt(1.0 + 2.0 * (a + b) + 4.0 * (a * b - ab * ab));
  });
}
double erf_slope(double c) { return 2.0 * inv_sqrtpi / std::sqrt(1.0 + 2.0 * c); }

/// The Gauss rule of S² for S of the Kolmogorov distribution, density 8s Σ_j (−1)^{j−1} j² exp(−2j²s²).
DiscreteRule kolmogorov_rule(int nodes) {
  constexpr int places = 400;
  constexpr double first = 0.15;  // below it the density, about exp(−π²/(8s²)), is under 1e-20
  constexpr double last = 4.5;    // and beyond it under 1e-15
  Vector square(places);
  Vector weight(places);
  for (int i = 0; i < places; ++i) {
    const double s = first + (last - first) * i / (places - 1);
    double density = 0.0;
    for (int j = 40; j >= 1; --j) density += (j % 2 == 1 ? 1.0 : -1.0) * j * j * std::exp(-2.0 * j * j * s * s);
    square[i] = s * s;
    weight[i] = std::max(8.0 * s * density, 0.0);
  }
  return discrete_gauss_rule(square, weight / weight.sum(), nodes);
}

const DiscreteRule& mixture() {
  static const DiscreteRule rule = kolmogorov_rule(14);
  return rule;
}

/// Σ_ij w_i w_j f(S_i², S_j²).
template <class F>
double mixed(const F& f) {
  const DiscreteRule& rule = mixture();
  double sum = 0.0;
  for (Index i = 0; i < rule.nodes.size(); ++i) {
    for (Index j = 0; j < rule.nodes.size(); ++j) {
      sum += rule.weights[i] * rule.weights[j] * f(rule.nodes[i], rule.nodes[j]);
    }
  }
  return sum;
}

/// Up to this variance Mehler's series is used: its coefficients fall like exp(−π√(n/(2c))) and leave 1e-6.
constexpr double smooth_variance = 4.0;

double tanh_derivative(double u) { return 1.0 / std::pow(std::cosh(u), 2); }

Matrix tanh_kernel(const Matrix& c) {
  if (c.diagonal().maxCoeff() <= smooth_variance) return mehler_kernel([](double u) { return std::tanh(u); }, c);
  return over_pairs(c, [](double a, double b, double ab) {
    return 2.0 / pi * mixed([&](double s, double t) { return std::asin(ab / std::sqrt((s + a) * (t + b))); });
  });
}
Matrix tanh_derivatives(const Matrix& c) {
  if (c.diagonal().maxCoeff() <= smooth_variance) return mehler_kernel(tanh_derivative, c);
  return over_pairs(c, [](double a, double b, double ab) {
    const double rest = a * b - ab * ab;
    return 2.0 / pi * mixed([&](double s, double t) { return 1.0 / std::sqrt(s * t + s * b + t * a + rest); });
  });
}
double tanh_slope(double c) {
  if (c <= smooth_variance) return gaussian_mean(tanh_derivative, c);
  const DiscreteRule& rule = mixture();
  double sum = 0.0;
  for (Index i = 0; i < rule.nodes.size(); ++i) sum += rule.weights[i] / std::sqrt(rule.nodes[i] + c);
  return std::numbers::sqrt2 * inv_sqrtpi * sum;
}

/// φ in expectation: E φφ and E φ'φ' of every pair, and E φ'.
struct Squash {
  Matrix (*kernel)(const Matrix& c);
  Matrix (*derivatives)(const Matrix& c);
  double (*slope)(double c);
};
constexpr Squash by_tanh{tanh_kernel, tanh_derivatives, tanh_slope};
constexpr Squash by_erf{erf_kernel, erf_derivatives, erf_slope};
constexpr Squash by_nothing{[](const Matrix& c) { return c; },
                            [](const Matrix& c) { return Matrix(Matrix::Ones(c.rows(), c.cols())); },
                            [](double) { return 1.0; }};

NormTrace bent_trace(const TokenKernel& x, const NormUse& norm) {
  return {.square = {}, .input = norm.alpha * norm.alpha * x.product};
}

template <const Squash& squash>
TokenKernel bent_kernel(const TokenKernel& x, const NormUse& norm, double gamma) {
  const Matrix product = gamma * gamma * squash.kernel(bent_trace(x, norm).input);
  return TokenKernel::of_independent_features(product, norm.width);
}

template <const Squash& squash>
Vector bent_slopes(const NormTrace& trace, const NormUse& norm, double gamma) {
  return trace.input.diagonal().unaryExpr(
      [&](double c) { return gamma * norm.alpha * squash.slope(std::max(c, 0.0)); });
}

template <const Squash& squash>
Matrix bent_gradient(const Matrix& g, const NormTrace& trace, const NormUse& norm, double gamma) {
  const double scale = gamma * norm.alpha;
  return scale * scale * squash.derivatives(trace.input).cwiseProduct(g);
}

/// ∂log E φ²/∂log c by a central difference: E φ² is smooth in log c.
template <const Squash& squash>
double bent_elasticity(double second_moment, const NormUse& norm) {
  constexpr double step = 1e-3;
  const double c = norm.alpha * norm.alpha * second_moment;
  const auto log_square = [&](double at) { return std::log(squash.kernel(Matrix::Constant(1, 1, at))(0, 0)); };
  return c > 0.0 ? (log_square(c * std::exp(step)) - log_square(c * std::exp(-step))) / (2.0 * step) : 1.0;
}

template <const Squash& squash>
constexpr NormLaw bending_law{.kernel = bent_kernel<squash>,
                              .trace = bent_trace,
                              .slope = bent_slopes<squash>,
                              .gradient = bent_gradient<squash>,
                              .coordinates = nullptr,
                              .elasticity = bent_elasticity<squash>};

}  // namespace

const NormLaw dyt_law = bending_law<by_tanh>;
const NormLaw derf_law = bending_law<by_erf>;
const NormLaw scale_law = bending_law<by_nothing>;

}  // namespace periscope::theory
