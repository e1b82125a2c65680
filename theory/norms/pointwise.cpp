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

/// Same as for_pairs, but clamps correlations to [−1, 1], which rounding may exceed.
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

/// Returns the Gauss rule in S² for S from the Kolmogorov distribution, density 8s Σ_j (−1)^{j−1} j² exp(−2j²s²).
DiscreteRule kolmogorov_rule(int nodes) {
  constexpr int points = 400;
  constexpr double first = 0.15;  // below 0.15 the density, about exp(−π²/(8s²)), is under 1e-20
  constexpr double last = 4.5;    // above 4.5 the density is under 1e-15
  Vector square(points);
  Vector weight(points);
  for (int i = 0; i < points; ++i) {
    const double s = first + (last - first) * i / (points - 1);
    double density = 0.0;
    for (int j = 40; j >= 1; --j) density += (j % 2 == 1 ? 1.0 : -1.0) * j * j * std::exp(-2.0 * j * j * s * s);
    square[i] = s * s;
    weight[i] = std::max(8.0 * s * density, 0.0);
  }
  return discrete_gauss_rule(square, weight / weight.sum(), nodes);
}

const DiscreteRule& kolmogorov() {
  static const DiscreteRule rule = kolmogorov_rule(14);
  return rule;
}

/// Returns Σ_ij w_i w_j f(S_i², S_j²), the mean of f over two independent S².
template <class F>
double kolmogorov_mean(const F& f) {
  const DiscreteRule& rule = kolmogorov();
  double sum = 0.0;
  for (Index i = 0; i < rule.nodes.size(); ++i) {
    for (Index j = 0; j < rule.nodes.size(); ++j) {
      sum += rule.weights[i] * rule.weights[j] * f(rule.nodes[i], rule.nodes[j]);
    }
  }
  return sum;
}

/// Largest variance for Mehler's series: coefficients decay like exp(−π√(n/(2c))), with a truncation error of 1e-6.
constexpr double max_series_variance = 4.0;

double tanh_derivative(double u) { return 1.0 / std::pow(std::cosh(u), 2); }

Matrix tanh_kernel(const Matrix& c) {
  if (c.diagonal().maxCoeff() <= max_series_variance) return mehler_kernel([](double u) { return std::tanh(u); }, c);
  return over_pairs(c, [](double a, double b, double ab) {
    return 2.0 / pi * kolmogorov_mean([&](double s, double t) { return std::asin(ab / std::sqrt((s + a) * (t + b))); });
  });
}
Matrix tanh_derivatives(const Matrix& c) {
  if (c.diagonal().maxCoeff() <= max_series_variance) return mehler_kernel(tanh_derivative, c);
  return over_pairs(c, [](double a, double b, double ab) {
    const double rest = a * b - ab * ab;
    return 2.0 / pi *
           kolmogorov_mean([&](double s, double t) { return 1.0 / std::sqrt(s * t + s * b + t * a + rest); });
  });
}
double tanh_slope(double c) {
  if (c <= max_series_variance) return gaussian_mean(tanh_derivative, c);
  const DiscreteRule& rule = kolmogorov();
  double sum = 0.0;
  for (Index i = 0; i < rule.nodes.size(); ++i) sum += rule.weights[i] / std::sqrt(rule.nodes[i] + c);
  return std::numbers::sqrt2 * inv_sqrtpi * sum;
}

/// Gaussian expectations of φ: E φφ and E φ'φ' of every pair of tokens, and E φ'.
struct PointwiseFunction {
  Matrix (*kernel)(const Matrix& c);
  Matrix (*derivatives)(const Matrix& c);
  double (*slope)(double c);
};
constexpr PointwiseFunction tanh_function{tanh_kernel, tanh_derivatives, tanh_slope};
constexpr PointwiseFunction erf_function{erf_kernel, erf_derivatives, erf_slope};
constexpr PointwiseFunction identity_function{[](const Matrix& c) { return c; },
                                              [](const Matrix& c) { return Matrix(Matrix::Ones(c.rows(), c.cols())); },
                                              [](double) { return 1.0; }};

NormTrace pointwise_trace(const TokenKernel& x, const NormUse& norm) {
  return {.square = {}, .input = norm.alpha * norm.alpha * x.product};
}

template <const PointwiseFunction& function>
TokenKernel pointwise_kernel(const TokenKernel& x, const NormUse& norm, double gamma) {
  const Matrix product = gamma * gamma * function.kernel(pointwise_trace(x, norm).input);
  return TokenKernel::of_independent_features(product, norm.width);
}

template <const PointwiseFunction& function>
Vector pointwise_slopes(const NormTrace& trace, const NormUse& norm, double gamma) {
  return trace.input.diagonal().unaryExpr(
      [&](double c) { return gamma * norm.alpha * function.slope(std::max(c, 0.0)); });
}

template <const PointwiseFunction& function>
Matrix pointwise_gradient(const Matrix& g, const NormTrace& trace, const NormUse& norm, double gamma) {
  const double scale = gamma * norm.alpha;
  return scale * scale * function.derivatives(trace.input).cwiseProduct(g);
}

/// Returns ∂log E φ²/∂log c by a central difference, because E φ² is smooth in log c.
template <const PointwiseFunction& function>
double pointwise_elasticity(double second_moment, const NormUse& norm) {
  constexpr double step = 1e-3;
  const double c = norm.alpha * norm.alpha * second_moment;
  const auto log_square = [&](double at) { return std::log(function.kernel(Matrix::Constant(1, 1, at))(0, 0)); };
  return c > 0.0 ? (log_square(c * std::exp(step)) - log_square(c * std::exp(-step))) / (2.0 * step) : 1.0;
}

template <const PointwiseFunction& function>
constexpr NormLaw pointwise_law{.kernel = pointwise_kernel<function>,
                                .trace = pointwise_trace,
                                .slope = pointwise_slopes<function>,
                                .gradient = pointwise_gradient<function>,
                                .coordinates = nullptr,
                                .elasticity = pointwise_elasticity<function>};

}  // namespace

const NormLaw dyt_law = pointwise_law<tanh_function>;
const NormLaw derf_law = pointwise_law<erf_function>;
const NormLaw scale_law = pointwise_law<identity_function>;

}  // namespace periscope::theory
