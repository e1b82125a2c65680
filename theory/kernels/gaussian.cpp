#include "theory/kernels/gaussian.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

#include "theory/kernels/activation_values.h"

namespace periscope::theory {
namespace {

using std::numbers::pi;

constexpr int series_terms = 64;  // highest degree
constexpr double node_limit = 10.0;
constexpr double node_step = 1.0 / 16.0;
constexpr int node_count = static_cast<int>(2 * node_limit / node_step) + 1;

/// Trapezoid rule shared by all integrands, so that one matrix product computes the coefficients of all tokens. It
/// converges faster than any power of the step: every integrand is smooth and decays like the normal density.
/// a_n = Σ_q f(√s z_q) w_qn with nodes z_q and weights w_qn = step·density(z_q)·He_n(z_q)/√n!.
struct Rule {
  Vector nodes{node_count};
  Matrix weights{node_count, series_terms + 1};
  Rule() {
    for (int q = 0; q < node_count; ++q) {
      const double z = -node_limit + q * node_step;
      nodes(q) = z;
      weights(q, 0) = node_step * std::exp(-0.5 * z * z) / std::sqrt(2.0 * pi);
      weights(q, 1) = z * weights(q, 0);
      for (int n = 1; n < series_terms; ++n) {  // √(n+1) h_{n+1} = z h_n − √n h_{n−1}
        weights(q, n + 1) = (z * weights(q, n) - std::sqrt(n) * weights(q, n - 1)) / std::sqrt(n + 1.0);
      }
    }
  }
};

const Rule& rule() {
  static const Rule instance;
  return instance;
}

double correlation(double a, double b, double c) {
  return a > 0 && b > 0 ? std::clamp(c / std::sqrt(a * b), -1.0, 1.0) : 0.0;
}

Matrix relu_kernel(const Matrix& c) {
  return for_pairs(c, [](double a, double b, double ab) {
    const double cosine = correlation(a, b, ab);
    const double angle = std::acos(cosine);
    return std::sqrt(a * b) * (std::sqrt(1 - cosine * cosine) + (pi - angle) * cosine) / (2 * pi);
  });
}

Matrix relu_derivative_kernel(const Matrix& c) {
  return for_pairs(c, [](double a, double b, double ab) { return (pi - std::acos(correlation(a, b, ab))) / (2 * pi); });
}

/// E[F(u)F(v)] and E[F'(u)F'(v)] for F the normal distribution function and (u, v) Gaussian.
struct NormalPair {
  double cdf_product, density_product, determinant;
  NormalPair(double a, double b, double ab)
      : cdf_product(0.25 + std::asin(std::clamp(ab / std::sqrt((1 + a) * (1 + b)), -1.0, 1.0)) / (2 * pi)),
        density_product(1 / (2 * pi * std::sqrt((1 + a) * (1 + b) - ab * ab))),
        determinant((1 + a) * (1 + b) - ab * ab) {}
};

Matrix gelu_kernel(const Matrix& c) {
  return for_pairs(c, [](double a, double b, double ab) {
    const NormalPair p(a, b, ab);
    return ab * p.cdf_product + p.density_product * (a * b - ab * ab * a / (1 + a) + ab * ab / (1 + b));
  });
}

Matrix gelu_derivative_kernel(const Matrix& c) {
  return for_pairs(c, [](double a, double b, double ab) {
    const NormalPair p(a, b, ab);
    return p.cdf_product + ab * p.density_product * (1 / (1 + a) + 1 / (1 + b) + 1 / p.determinant);
  });
}

/// Mehler coefficients a_n of every token, and √(Σ_{n>64} a_n²).
struct Coefficients {
  Matrix series;  // [tokens, series_terms + 1]
  Vector rest;    // [tokens]
};

/// After a norm the variances of tokens differ only through ε. Coefficients are smooth in the variance, so they are
/// interpolated from four Chebyshev nodes. The relative error is about (r/4)⁴/12 over a range of relative size r.
constexpr double narrow_range = 1e-2;
constexpr int interpolation_nodes = 4;

struct Interpolation {
  Vector nodes{interpolation_nodes};
  Matrix weights;  // Lagrange weights [tokens, nodes]
  explicit Interpolation(const Vector& x) : weights(Matrix::Ones(x.size(), interpolation_nodes)) {
    const double middle = 0.5 * (x.maxCoeff() + x.minCoeff());
    const double half = std::max(0.5 * (x.maxCoeff() - x.minCoeff()), 1e-6 * middle);
    for (int i = 0; i < interpolation_nodes; ++i) {
      nodes(i) = middle + half * std::cos(pi * (i + 0.5) / interpolation_nodes);
    }
    for (int i = 0; i < interpolation_nodes; ++i) {
      for (int j = 0; j < interpolation_nodes; ++j) {
        if (j != i) weights.col(i).array() *= (x.array() - nodes(j)) / (nodes(i) - nodes(j));
      }
    }
  }
};

/// `f` maps a vector of arguments elementwise.
template <class F>
Coefficients coefficients_of(const F& f, const Vector& variance) {
  const bool narrow =
      variance.size() > interpolation_nodes && variance.minCoeff() > (1 - narrow_range) * variance.maxCoeff();
  const std::optional<Interpolation> tokens = narrow ? std::optional<Interpolation>(variance) : std::nullopt;
  const Vector& at = narrow ? tokens->nodes : variance;
  Matrix values(at.size(), node_count);
  for (Index i = 0; i < at.size(); ++i) {
    values.row(i) = f(Vector(std::sqrt(std::max(at(i), 0.0)) * rule().nodes)).transpose();
  }
  const Matrix series = values * rule().weights;
  const Vector rest = values.array().square().matrix() * rule().weights.col(0) - series.rowwise().squaredNorm();
  if (!narrow) return {series, rest.cwiseMax(0.0).cwiseSqrt()};
  return {tokens->weights * series, (tokens->weights * rest).cwiseMax(0.0).cwiseSqrt()};
}

/// Sums the series by Horner's rule, for `block` tokens s at a time against token t, so that sums stay in registers.
template <class F>
Matrix kernel_by_series(const F& f, const Matrix& c) {
  constexpr Index block = 32;
  using Block = Eigen::Array<double, block, 1>;
  const Index tokens = c.rows();
  const auto [series, rest] = coefficients_of(f, c.diagonal());
  const Index padded = (tokens + block - 1) / block * block;
  // Coefficients grouped by block of tokens: [block, terms] each.
  Eigen::ArrayXXd blocks = Eigen::ArrayXXd::Zero(block, (padded / block) * (series_terms + 1));
  for (Index first = 0; first < tokens; first += block) {
    const Index n = std::min(block, tokens - first);
    blocks.block(0, first / block * (series_terms + 1), n, series_terms + 1) = series.middleRows(first, n).array();
  }
  Vector tail = Vector::Zero(padded);
  tail.head(tokens) = rest;
  const Matrix by_term = series.transpose();
  Vector rho = Vector::Zero(padded);
  Matrix out(tokens, tokens);
  for (Index t = 0; t < tokens; ++t) {
    for (Index s = 0; s < t; ++s) rho(s) = correlation(c(t, t), c(s, s), c(t, s));
    rho(t) = 1.0;
    for (Index first = 0; first <= t; first += block) {
      const Block x = rho.segment<block>(first);
      Block sum = rest(t) * tail.segment<block>(first);
      const Index column = first / block * (series_terms + 1);
      for (int n = series_terms; n >= 0; --n) sum = sum * x + by_term(n, t) * blocks.col(column + n).head<block>();
      const Index n = std::min(block, t + 1 - first);
      out.col(t).segment(first, n) = sum.head(n);
    }
  }
  out.triangularView<Eigen::StrictlyLower>() = out.transpose();
  return out;
}

}  // namespace

Matrix mehler_kernel(const std::function<double(double)>& f, const Matrix& c) {
  return kernel_by_series([&](const Vector& x) { return Vector(x.unaryExpr(f)); }, c);
}

double gaussian_mean(const std::function<double(double)>& f, double variance) {
  double sum = 0.0;
  for (int q = 0; q < node_count; ++q) sum += f(std::sqrt(variance) * rule().nodes(q)) * rule().weights(q, 0);
  return sum;
}

Matrix activation_kernel(Activation activation, const Matrix& c) {
  if (activation == Activation::relu) return relu_kernel(c);
  if (activation == Activation::gelu) return gelu_kernel(c);
  return kernel_by_series([&](const Vector& x) { return activation_values(activation, x); }, c);
}

Matrix derivative_kernel(Activation activation, const Matrix& c) {
  if (activation == Activation::relu) return relu_derivative_kernel(c);
  if (activation == Activation::gelu) return gelu_derivative_kernel(c);
  return kernel_by_series([&](const Vector& x) { return activation_slopes(activation, x); }, c);
}

}  // namespace periscope::theory
