#include "theory/quantization.h"

#include <algorithm>
#include <cmath>

namespace periscope::theory {
namespace {

/// P(|z| < x) of a standard normal number.
double within(double x) { return std::erf(x / std::sqrt(2.0)); }

}  // namespace

double floating_noise(const NumberFormat& format, double sigma) {
  const int subnormal = format.least_exponent;
  // Above 2^6 σ there is nothing, and below 2^-60 σ no binade that counts.
  const int top = std::ilogb(sigma) + 6;
  const int bottom = std::max(subnormal, std::ilogb(sigma) - 60);
  double noise = 0.0;
  for (int e = bottom; e <= top; ++e) {
    const double from = e == bottom ? 0.0 : std::ldexp(1.0, e);
    const double share = within(std::ldexp(1.0, e + 1) / sigma) - within(from / sigma);
    noise += share * std::ldexp(1.0, 2 * (e + 1 - format.precision)) / 12.0;
  }
  return noise / (sigma * sigma);
}

double integer_noise(int largest_integer, std::size_t group) {
  const auto n = static_cast<double>(group);
  // E[a²] = ∫ 2a·P(max > a) da by the trapezoidal rule, whose error is far below a step for a function this smooth.
  constexpr double step = 1e-3;
  double square = 0.0;
  for (double a = step; a < 12.0; a += step) square += 2.0 * a * -std::expm1(n * std::log(within(a))) * step;
  const double levels = largest_integer;
  return (1.0 - 1.0 / n) * square / (12.0 * levels * levels);
}

}  // namespace periscope::theory
