#include "theory/kernels/gaussian.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <numbers>

#include "tests/theory/pair_quadrature.h"

namespace periscope::theory {
namespace {

using std::numbers::pi;
using testing::Function;

double relu(double x) { return std::fmax(x, 0.0); }
double relu_derivative(double x) { return x > 0.0 ? 1.0 : 0.0; }
double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double gelu_derivative(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * pi);
}
double silu(double x) { return 0.5 * x * (1.0 + std::tanh(0.5 * x)); }
double silu_derivative(double x) {
  const double t = std::tanh(0.5 * x);
  return 0.5 * (1.0 + t) + 0.25 * x * (1.0 - t * t);
}

double gelu_tanh(double x) { return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / pi) * (x + 0.044715 * x * x * x))); }
double gelu_tanh_derivative(double x) {
  const double t = std::tanh(std::sqrt(2.0 / pi) * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * std::sqrt(2.0 / pi) * (1.0 + 3.0 * 0.044715 * x * x);
}

Matrix covariance(double a, double b, double correlation) {
  Matrix c(2, 2);
  c << a, correlation * std::sqrt(a * b), correlation * std::sqrt(a * b), b;
  return c;
}

constexpr double variances[] = {1e-3, 0.3, 4.0, 30.0};
constexpr double correlations[] = {-0.9, -0.5, 0.0, 0.3, 0.7, 0.9, 0.97, 0.99, 1.0};

/// Largest error of `kernel` over the grid, relative to √(E f(u)² · E f(v)²), the scale of its entries.
double worst_error(const Function& f, const std::function<Matrix(const Matrix&)>& kernel) {
  double worst = 0.0;
  for (const double a : variances) {
    for (const double b : variances) {
      if (b > a) continue;
      const double scale = std::sqrt(testing::pair_expectation(f, a, a, 1.0) * testing::pair_expectation(f, b, b, 1.0));
      for (const double correlation : correlations) {
        const Matrix k = kernel(covariance(a, b, correlation));
        const double exact = testing::pair_expectation(f, a, b, correlation);
        worst = std::max(worst, std::abs(k(0, 1) - exact) / scale);
        worst = std::max(worst, std::abs(k(1, 0) - exact) / scale);
      }
    }
  }
  return worst;
}

TEST_CASE("kernels of every activation agree with quadrature at variances up to 30" * doctest::test_suite("slow")) {
  const auto sigmoid = [](double x) { return 0.5 * (1.0 + std::tanh(0.5 * x)); };
  const auto sigmoid_derivative = [](double x) { return 0.25 / std::pow(std::cosh(0.5 * x), 2); };
  struct Row {
    Activation activation;
    Function f, derivative;
    double error, derivative_error;
  };
  for (const Row& row : {Row{Activation::relu, relu, relu_derivative, 1e-13, 1e-13},  // closed forms
                         Row{Activation::gelu, gelu, gelu_derivative, 1e-13, 1e-13},
                         Row{Activation::silu, silu, silu_derivative, 1e-6, 1e-4},  // Mehler's series
                         Row{Activation::sigmoid, sigmoid, sigmoid_derivative, 1e-5, 1e-3},
                         Row{Activation::gelu_tanh, gelu_tanh, gelu_tanh_derivative, 1e-5, 1e-3}}) {
    CAPTURE(static_cast<int>(row.activation));
    CHECK(worst_error(row.f, [&](const Matrix& c) { return activation_kernel(row.activation, c); }) < row.error);
    CHECK(worst_error(row.derivative, [&](const Matrix& c) { return derivative_kernel(row.activation, c); }) <
          row.derivative_error);
  }
}

TEST_CASE("a token of variance 0 has the kernel of a constant") {
  const Matrix c = covariance(0.0, 4.0, 0.0);
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::silu}) {
    const Matrix k = activation_kernel(activation, c);
    CHECK(std::abs(k(0, 0)) < 1e-12);
    CHECK(std::abs(k(0, 1)) < 1e-12);
    CHECK(k(1, 1) > 0.5);
  }
}

TEST_CASE("interpolated coefficients for similar variances agree with the coefficients of each variance" *
          doctest::test_suite("slow")) {
  for (const double variance : {0.01, 1.0, 30.0}) {
    const Eigen::Index tokens = 40;  // more than one block of the Horner evaluation
    Matrix c(tokens, tokens);
    const auto scale = [&](Eigen::Index t) { return 1.0 - 0.0097 * static_cast<double>((7 * t) % tokens) / 40.0; };
    for (Eigen::Index t = 0; t < tokens; ++t) {
      for (Eigen::Index s = 0; s < tokens; ++s) {
        const double rho = t == s ? 1.0 : std::cos(static_cast<double>(t - s));
        c(t, s) = variance * rho * std::sqrt(scale(t) * scale(s));
      }
    }
    const Matrix kernel = activation_kernel(Activation::silu, c);
    const Matrix derivatives = derivative_kernel(Activation::silu, c);
    for (Eigen::Index t = 0; t < tokens; t += 3) {
      for (Eigen::Index s = 0; s < tokens; ++s) {
        Matrix pair(2, 2);  // too few tokens to interpolate
        pair << c(t, t), c(t, s), c(s, t), c(s, s);
        const double size = activation_kernel(Activation::silu, pair)(0, 0);
        CHECK(std::abs(kernel(t, s) - activation_kernel(Activation::silu, pair)(0, 1)) <= 1e-10 * size);
        CHECK(std::abs(derivatives(t, s) - derivative_kernel(Activation::silu, pair)(0, 1)) <= 1e-10);
      }
    }
  }
}

TEST_CASE("gaussian_mean equals closed forms and quadrature") {
  for (const double variance : {1e-3, 1.0, 30.0}) {
    CHECK(gaussian_mean([](double x) { return x * x; }, variance) == approx(variance).epsilon(1e-13));
    CHECK(gaussian_mean([](double x) { return std::cos(x); }, variance) ==
          approx(std::exp(-0.5 * variance)).epsilon(1e-9));
    CHECK(gaussian_mean(silu, variance) ==
          approx(testing::normal_expectation(silu, 0.0, std::sqrt(variance))).epsilon(1e-12));
  }
}

}  // namespace
}  // namespace periscope::theory
