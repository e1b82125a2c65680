#include "theory/formats/rounding_noise.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <vector>

#include "sim/numerics/rounding.h"

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

/// The nonnegative numbers of a format with a scale, without infinity.
std::vector<double> numbers_of(const TensorFormat& format) {
  std::vector<double> numbers;
  if (format.is_integer()) {
    for (int i = 0; i <= format.largest_integer; ++i) numbers.push_back(i);
    return numbers;
  }
  const NumberFormat& f = format.floating;
  double step = f.smallest_subnormal();
  const double normal = std::ldexp(1.0, f.least_exponent);
  for (double x = 0.0; x <= f.largest; x += step) {
    if (x >= 2.0 * normal && std::exp2(std::ilogb(x)) == x) step *= 2.0;
    numbers.push_back(x);
  }
  return numbers;
}

/// Mean square error of rounding the standard normal z > 0 to the multiples s·g of a scale s by the numbers g of a
/// format. Above the largest number, z saturates.
class ScaledGrid {
 public:
  ScaledGrid(const std::vector<double>& numbers, double scale, bool stochastic) : stochastic_(stochastic) {
    for (const double g : numbers) grid_.push_back(scale * g);
    for (std::size_t j = 0; j + 1 < grid_.size() && !stochastic; ++j) ends_.push_back(0.5 * (grid_[j] + grid_[j + 1]));
    if (stochastic) ends_.assign(grid_.begin() + 1, grid_.end());
    for (std::size_t j = 0; j < ends_.size(); ++j) below_.push_back(below_.back() + cell(j, ends_[j]));
  }
  /// Returns ∫₀^a E(ẑ − z)² φ(z) dz, with φ the standard normal density.
  [[nodiscard]] double up_to(double a) const {
    const std::size_t j = index_of(a);
    return below_[j] + cell(j, a);
  }
  /// Returns E(â − a)².
  [[nodiscard]] double at(double a) const {
    const std::size_t j = index_of(a);
    return stochastic_ && j < ends_.size() ? (a - grid_[j]) * (grid_[j + 1] - a) : std::pow(a - grid_[j], 2.0);
  }

 private:
  [[nodiscard]] std::size_t index_of(double a) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(ends_, a) - ends_.begin());
  }
  /// Returns the integral over cell j, up to z = `end`. It has the antiderivative (1 + c²)Φ + (2c − z)φ of (z − c)²φ,
  /// or −(1 + lh)Φ + (z − l − h)φ of (z − l)(h − z)φ.
  [[nodiscard]] double cell(std::size_t j, double end) const {
    const bool between = stochastic_ && j < ends_.size();
    const double l = grid_[j];
    const double h = between ? grid_[j + 1] : l;
    const auto antiderivative = [&](double z) {
      const double density = std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::numbers::pi);
      return 0.5 * (1.0 + l * h) * std::erf(z / std::sqrt(2.0)) + (l + h - z) * density;
    };
    return (between ? -1.0 : 1.0) * (antiderivative(end) - antiderivative(j == 0 ? 0.0 : ends_[j - 1]));
  }

  bool stochastic_;
  std::vector<double> grid_;           ///< numbers times the scale
  std::vector<double> ends_;           ///< upper ends of all cells but the last
  std::vector<double> below_ = {0.0};  ///< integrals up to the lower ends of the cells
};

/// Returns the quantile of max|z| over n standard normal z at probability u.
double maximum_quantile(double n, double u) {
  return std::sqrt(2.0) * boost::math::erfc_inv(-std::expm1(std::log(u) / n));
}

/// Returns the scale of a group with largest entry `largest`, in units of σ.
double scale_for(const Quantization& q, double sigma, double largest, double largest_of_tensor) {
  const double most = q.format.is_integer() ? q.format.largest_integer : q.format.floating.largest;
  const auto power = [&](double exponent) { return std::exp2(exponent) / sigma; };
  switch (q.format.block_scale) {
    case BlockScale::power_of_two: return power(std::floor(std::log2(largest * sigma)) - std::ilogb(most));
    case BlockScale::e4m3: {
      const double unit = std::max(largest, largest_of_tensor) / (most * fp8_e4m3.largest);
      return unit * Rounding(fp8_e4m3)(largest / (most * unit));
    }
    case BlockScale::none: break;
  }
  return q.format.is_integer() ? largest / most : power(std::ceil(std::log2(largest * sigma / most)));
}

/// Returns the number of entries that share a scale.
std::size_t group_of(const WeightShape& shape, const Quantization& q) {
  const auto row = static_cast<std::size_t>(shape.fan_in);
  if (q.has_blocks()) return std::min(row, static_cast<std::size_t>(q.block));
  return q.scale == ScaleOver::tensor ? row * static_cast<std::size_t>(shape.fan_out) : row;
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

double scaled_noise(const Quantization& q, double sigma, std::size_t group, std::size_t tensor) {
  const auto n = static_cast<double>(group);
  const double largest_of_tensor = maximum_quantile(static_cast<double>(tensor), 0.5);
  const std::vector<double> numbers = numbers_of(q.format);
  std::map<double, ScaledGrid> grids;  // powers of two are few
  double sum = 0.0;
  constexpr int quantiles = 256;
  for (int i = 0; i < quantiles; ++i) {
    const double largest = maximum_quantile(n, (i + 0.5) / quantiles);
    const double scale = scale_for(q, sigma, largest, largest_of_tensor);
    const ScaledGrid& grid = grids.try_emplace(scale, numbers, scale, q.stochastic).first->second;
    sum += (n - 1.0) * 2.0 * grid.up_to(largest) / probability_within(largest) + grid.at(largest);
  }
  return sum / (n * quantiles);
}

double weight_noise(const StackSpec& spec, int layer, Weight weight, const Quantization& q) {
  const double sigma = stddev_of(spec, layer, weight);
  if (!q.has_scale()) return floating_noise(q.format.floating, sigma, q.stochastic);
  const WeightShape shape = shape_of(spec.model, weight, layer);
  return scaled_noise(q, sigma, group_of(shape, q),
                      static_cast<std::size_t>(shape.fan_in) * static_cast<std::size_t>(shape.fan_out));
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
