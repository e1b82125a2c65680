#include "theory/formats/rounding_noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "theory/formats/quantization.h"

namespace periscope::theory {
namespace {

double square_of(std::span<const double> x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); }

/// Returns how many entries of a matrix share a scale.
std::size_t group_of(const WeightShape& shape, ScaleOver scale) {
  const auto row = static_cast<std::size_t>(shape.fan_in);
  if (scale == ScaleOver::tensor) return row * static_cast<std::size_t>(shape.fan_out);
  return scale == ScaleOver::block ? std::min<std::size_t>(row, block_length) : row;
}

/// σ of numbers that are scaled into the range of a format, up to a factor of two, which changes nothing there.
double sigma_in(const Quantization& q, double sigma) {
  if (q.scale == ScaleOver::nothing) return sigma;
  constexpr double about_the_largest = 8.0;  // in units of σ
  return std::ldexp(sigma, std::ilogb(q.format.floating.largest / (about_the_largest * sigma)));
}

}  // namespace

double weight_noise(const StackSpec& spec, int layer, Weight weight, const Quantization& q) {
  if (q.format.is_integer()) {
    return integer_noise(q.format.largest_integer, group_of(shape_of(spec.model, weight, layer), q.scale),
                         q.stochastic);
  }
  return floating_noise(q.format.floating, sigma_in(q, stddev_of(spec, layer, weight)), q.stochastic);
}

void NoiseBudget::add(std::span<const double> square_errors, std::span<const double> gradient, double times) {
  for (std::size_t i = 0; i < square_errors.size(); ++i) sum_ += times * square_errors[i] * gradient[i] * gradient[i];
}

double NoiseBudget::sqnr(std::span<const double> stream, std::span<const double> gradient) const {
  if (sum_ == 0.0) return std::numeric_limits<double>::quiet_NaN();
  const double noise = sum_ * static_cast<double>(stream.size()) / square_of(gradient);
  return 10.0 * std::log10(square_of(stream) / noise);
}

}  // namespace periscope::theory
