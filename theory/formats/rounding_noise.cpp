#include "theory/formats/rounding_noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace periscope::theory {
namespace {

/// Returns P(|z| < x) for a standard normal z.
double probability_within(double x) { return std::erf(x / std::sqrt(2.0)); }

/// Returns E[(x̂ − x)²] of x ~ N(0, σ²) rounded to multiples of Δ = `step`, by the Fourier series of the mean square
/// error in x. Rounding to nearest has Δ²(1/12 + Σ_k (−1)^k cos(2πkx/Δ)/(πk)²); stochastic rounding has
/// (x − a)(b − x) = Δ²(1/6 − Σ_k cos(2πkx/Δ)/(πk)²). E cos(2πkx/Δ) = exp(−2(πkσ/Δ)²).
double uniform_noise(double step, double sigma, bool stochastic) {
  const double pi = std::numbers::pi;
  // Nearly all |x| < Δ/2: rounding to nearest has error x; stochastic rounding has mean square error E|x|(Δ − |x|).
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

double square_of(std::span<const double> x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); }

/// Returns the number of entries that share a scale.
std::size_t group_of(const WeightShape& shape, ScaleOver scale) {
  const auto row = static_cast<std::size_t>(shape.fan_in);
  if (scale == ScaleOver::tensor) return row * static_cast<std::size_t>(shape.fan_out);
  return scale == ScaleOver::block ? std::min<std::size_t>(row, block_length) : row;
}

/// Returns σ after scaling into the range of a floating format by a power of two, which does not affect the noise.
double sigma_in(const Quantization& q, double sigma) {
  if (q.scale == ScaleOver::nothing) return sigma;
  constexpr double largest_over_sigma = 8.0;
  return std::ldexp(sigma, std::ilogb(q.format.floating.largest / (largest_over_sigma * sigma)));
}

}  // namespace

double floating_noise(const NumberFormat& format, double sigma, bool stochastic) {
  const int subnormal = format.least_exponent;
  // Binades above 2^6 σ or below 2^-60 σ contribute nothing.
  const int bottom = std::max(subnormal, std::ilogb(sigma) - 60);
  const int top = std::max(bottom, std::ilogb(sigma) + 6);
  double noise = 0.0;
  for (int e = bottom; e <= top; ++e) {
    const double from = e == bottom ? 0.0 : std::ldexp(1.0, e);
    const double share = probability_within(std::ldexp(1.0, e + 1) / sigma) - probability_within(from / sigma);
    const double step = std::ldexp(1.0, e + 1 - format.precision);
    noise += share * (e == bottom ? uniform_noise(step, sigma, stochastic) : step * step / (stochastic ? 6.0 : 12.0));
  }
  return noise / (sigma * sigma);
}

double integer_noise(int largest_integer, std::size_t group, bool stochastic) {
  const auto n = static_cast<double>(group);
  // E[a²] = ∫ 2a·P(max > a) da by the trapezoidal rule; the integrand is smooth, so its error is negligible.
  constexpr double step = 1e-3;
  double square = 0.0;
  for (double a = step; a < 12.0; a += step)
    square += 2.0 * a * -std::expm1(n * std::log(probability_within(a))) * step;
  const double levels = largest_integer;
  return (1.0 - 1.0 / n) * square / ((stochastic ? 6.0 : 12.0) * levels * levels);
}

double weight_noise(const StackSpec& spec, int layer, Weight weight, const Quantization& q) {
  if (q.format.is_integer()) {
    return integer_noise(q.format.largest_integer, group_of(shape_of(spec.model, weight, layer), q.scale),
                         q.stochastic);
  }
  return floating_noise(q.format.floating, sigma_in(q, stddev_of(spec, layer, weight)), q.stochastic);
}

void NoiseBudget::add(std::span<const double> square_errors, std::span<const double> gradient, double factor) {
  for (std::size_t i = 0; i < square_errors.size(); ++i) sum_ += factor * square_errors[i] * gradient[i] * gradient[i];
}

double NoiseBudget::sqnr(std::span<const double> stream, std::span<const double> gradient) const {
  if (sum_ == 0.0) return std::numeric_limits<double>::quiet_NaN();
  const double noise = sum_ * static_cast<double>(stream.size()) / square_of(gradient);
  return 10.0 * std::log10(square_of(stream) / noise);
}

}  // namespace periscope::theory
