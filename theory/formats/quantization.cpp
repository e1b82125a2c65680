#include "theory/formats/quantization.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace periscope::theory {
namespace {

/// P(|z| < x) of a standard normal number.
double within(double x) { return std::erf(x / std::sqrt(2.0)); }

/// E[(x̂ − x)²] of x ~ N(0, σ²) rounded to multiples of Δ = `step`, by the Fourier series of the error's mean square in
/// the place of x between two multiples. To nearest that is Δ²(1/12 + Σ_k (−1)^k cos(2πkx/Δ)/(πk)²), stochastically,
/// (x − a)(b − x) = Δ²(1/6 − Σ_k cos(2πkx/Δ)/(πk)²), and E cos(2πkx/Δ) = exp(−2(πkσ/Δ)²).
double uniform_noise(double step, double sigma, bool stochastic) {
  const double pi = std::numbers::pi;
  // Hardly any x is beyond half a step: all of it is lost, or Δ gained with probability |x|/Δ, E|x|(Δ − |x|).
  if (sigma < 0.1 * step) {
    return stochastic ? sigma * (step * std::sqrt(2.0 / pi) - sigma) : sigma * sigma;
  }
  double sum = stochastic ? 1.0 / 6.0 : 1.0 / 12.0;
  for (int k = 1; k <= 12; ++k) {
    const double sign = stochastic || k % 2 != 0 ? -1.0 : 1.0;
    sum += sign * std::exp(-2.0 * std::pow(pi * k * sigma / step, 2)) / std::pow(pi * k, 2);
  }
  return sum * step * step;
}

}  // namespace

double floating_noise(const NumberFormat& format, double sigma, bool stochastic) {
  const int subnormal = format.least_exponent;
  // Above 2^6 σ there is nothing, and below 2^-60 σ no binade that counts.
  const int bottom = std::max(subnormal, std::ilogb(sigma) - 60);
  const int top = std::max(bottom, std::ilogb(sigma) + 6);
  double noise = 0.0;
  for (int e = bottom; e <= top; ++e) {
    const double from = e == bottom ? 0.0 : std::ldexp(1.0, e);
    const double share = within(std::ldexp(1.0, e + 1) / sigma) - within(from / sigma);
    const double step = std::ldexp(1.0, e + 1 - format.precision);
    noise += share * (e == bottom ? uniform_noise(step, sigma, stochastic) : step * step / (stochastic ? 6.0 : 12.0));
  }
  return noise / (sigma * sigma);
}

double integer_noise(int largest_integer, std::size_t group, bool stochastic) {
  const auto n = static_cast<double>(group);
  // E[a²] = ∫ 2a·P(max > a) da by the trapezoidal rule, whose error is far below a step for a function this smooth.
  constexpr double step = 1e-3;
  double square = 0.0;
  for (double a = step; a < 12.0; a += step) square += 2.0 * a * -std::expm1(n * std::log(within(a))) * step;
  const double levels = largest_integer;
  return (1.0 - 1.0 / n) * square / ((stochastic ? 6.0 : 12.0) * levels * levels);
}

}  // namespace periscope::theory
