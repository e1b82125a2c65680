#include "theory/kernels/gaussian.h"

#include "tests/support/doctest.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "tests/theory/pair_quadrature.h"

namespace periscope::theory {
namespace {

using doctest::Approx;
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

double worst_kernel_error(Activation activation, const Function& f) {
  return worst_error(f, [&](const Matrix& c) { return activation_kernel(activation, c); });
}

double worst_derivative_error(Activation activation, const Function& f) {
  return worst_error(f, [&](const Matrix& c) { return derivative_kernel(activation, c); });
}

TEST_CASE("the quadrature of these tests, against moments known by hand") {
  CHECK(testing::pair_expectation([](double x) { return x; }, 2.0, 3.0, 0.4) ==
        Approx(0.4 * std::sqrt(6.0)).epsilon(1e-13));
  CHECK(testing::pair_expectation([](double x) { return x * x; }, 2.0, 3.0, 0.4) ==
        Approx(6.0 * (1 + 0.32)).epsilon(1e-13));
  CHECK(testing::pair_expectation(relu_derivative, 2.0, 3.0, 0.0) == Approx(0.25).epsilon(1e-13));
  CHECK(testing::pair_expectation(relu_derivative, 2.0, 3.0, 0.5) ==
        Approx(1.0 / 3.0).epsilon(1e-13));  // 1/4 + asin(1/2)/2π
}

TEST_CASE("kernels of every activation against quadrature, at variances up to 30") {
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
    CHECK(worst_kernel_error(row.activation, row.f) < row.error);
    CHECK(worst_derivative_error(row.activation, row.derivative) < row.derivative_error);
  }
}

TEST_CASE("Mehler's series is exact to rounding where the activation is smooth on the scale of its input") {
  for (const double a : {1e-3, 0.1, 1.0}) {
    for (const double b : {1e-3, 0.1, 1.0}) {
      for (const double correlation : {-0.9, -0.3, 0.0, 0.6, 1.0}) {
        const Matrix c = covariance(a, b, correlation);
        const double exact = testing::pair_expectation(silu, a, b, correlation);
        const double scale =
            std::sqrt(testing::pair_expectation(silu, a, a, 1.0) * testing::pair_expectation(silu, b, b, 1.0));
        CHECK(std::abs(mehler_kernel(silu, c)(0, 1) - exact) < 1e-13 * scale);
        CHECK(std::abs(mehler_kernel(gelu, c)(0, 1) - activation_kernel(Activation::gelu, c)(0, 1)) < 1e-13 * scale);
      }
    }
  }
}

TEST_CASE("GELU and SiLU are linear for small variances") {
  // φ(u) ≈ u/2, φ' ≈ 1/2.
  for (const Activation activation : {Activation::gelu, Activation::silu}) {
    CHECK(activation_kernel(activation, covariance(1e-8, 1e-8, 0.5))(0, 1) == Approx(0.25 * 0.5e-8).epsilon(1e-6));
    CHECK(derivative_kernel(activation, covariance(1e-8, 1e-8, 0.5))(0, 1) == Approx(0.25).epsilon(1e-6));
  }
}

TEST_CASE("a token of variance 0 has the kernel of a constant") {
  const Matrix c = covariance(0.0, 4.0, 0.0);
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::silu}) {
    const Matrix k = activation_kernel(activation, c);
    CHECK(k(0, 0) == Approx(0.0));
    CHECK(k(0, 1) == Approx(0.0));
    CHECK(k(1, 1) > 0.5);
  }
}

TEST_CASE("kernels are symmetric, and an entry depends on its pair alone") {
  Matrix c(3, 3);
  c << 2.0, 0.5, -0.3, 0.5, 1.0, 0.9, -0.3, 0.9, 3.0;
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::silu}) {
    for (const bool derivative : {false, true}) {
      const auto kernel = [&](const Matrix& m) {
        return derivative ? derivative_kernel(activation, m) : activation_kernel(activation, m);
      };
      const Matrix k = kernel(c);
      CHECK(k == k.transpose());
      CHECK(kernel(c.bottomRightCorner(2, 2))(0, 1) == Approx(k(1, 2)).epsilon(1e-14));
    }
  }
}

TEST_CASE("interpolated coefficients for similar variances, against the coefficients of each variance") {
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

TEST_CASE("means of functions of one Gaussian") {
  for (const double variance : {1e-3, 1.0, 30.0}) {
    CHECK(gaussian_mean([](double x) { return x * x; }, variance) == Approx(variance).epsilon(1e-13));
    CHECK(gaussian_mean([](double x) { return std::cos(x); }, variance) ==
          Approx(std::exp(-0.5 * variance)).epsilon(1e-9));
    CHECK(gaussian_mean(silu, variance) ==
          Approx(testing::normal_expectation(silu, 0.0, std::sqrt(variance))).epsilon(1e-12));
  }
}

}  // namespace
}  // namespace periscope::theory
