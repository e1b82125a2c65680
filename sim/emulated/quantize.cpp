#include "sim/emulated/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "sim/core/storage.h"
#include "sim/random/philox.h"

namespace periscope {
namespace {

using Index = Tensor::Index;

/// Source of one random word per entry: consecutive words of a stream, or one constant word for all entries.
class Words {
 public:
  Words(StreamKey key, std::uint64_t first) : key_(key), first_(static_cast<Index>(first)) {}
  explicit Words(std::uint32_t constant) : constant_(constant) {}
  /// Returns the word of an entry. Fast if entries are requested in order.
  std::uint32_t at(Index entry) {
    if (constant_) return *constant_;
    const Index i = first_ + entry;
    const Index piece = i / length;
    if (piece != piece_) {
      philox_words(key_, static_cast<std::uint64_t>(piece) * (length / 4), words_);
      piece_ = piece;
    }
    return words_[static_cast<std::size_t>(i % length)];
  }

 private:
  static constexpr Index length = 256;
  std::optional<std::uint32_t> constant_;
  StreamKey key_{};
  Index first_ = 0;
  Index piece_ = -1;
  std::array<std::uint32_t, length> words_;
};

template <class T>
double largest_magnitude(const T* x, Index count) {
  double largest = 0.0;
  bool is_finite = true;
  for (Index i = 0; i < count; ++i) {
    const double magnitude = std::abs(static_cast<double>(x[i]));
    largest = magnitude > largest ? magnitude : largest;
    is_finite = is_finite && magnitude < std::numeric_limits<double>::infinity();  // false for NaN
  }
  return is_finite ? largest : std::numeric_limits<double>::infinity();
}

/// Returns the smallest power of two that is at least x > 0.
double next_power_of_two(double x) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(1.0, mantissa == 0.5 ? exponent - 1 : exponent);
}

double block_rounding(double scale) {
  static const Rounding rounding(fp8_e4m3, Rounding::Overflow::saturate);
  return rounding(scale);
}

/// Rounds entries first … first + count − 1, as one group with a common scale or without a scale.
template <class T>
class Group {
 public:
  /// `tensor_scale` multiplies E4M3 scales of blocks.
  Group(const T* x, float* y, const Quantization& q, Words words, double tensor_scale)
      : x_(x),
        y_(y),
        q_(q),
        rounding_(q.format.floating, q.format.has_block_scale() ? Rounding::Overflow::saturate : q.overflow),
        words_(words),
        tensor_scale_(tensor_scale) {}

  void unscaled(Index first, Index count) { round(first, count, 1.0); }
  void scaled(Index first, Index count) {
    const double largest = largest_magnitude(x_ + first, count);
    if (!std::isfinite(largest * tensor_scale_)) {
      std::fill_n(y_ + first, count, std::numeric_limits<float>::quiet_NaN());
    } else if (q_.format.is_integer()) {
      round_to_integers(first, count, static_cast<float>(largest / q_.format.largest_integer));
    } else {
      round(first, count, largest > 0.0 ? scale_for(largest) : 1.0);
    }
  }

 private:
  [[nodiscard]] double scale_for(double largest) const {
    const double most = q_.format.floating.largest;
    switch (q_.format.block_scale) {
      case BlockScale::power_of_two:
        return std::ldexp(1.0, std::clamp(std::ilogb(largest) - std::ilogb(most), -127, 127));
      case BlockScale::e4m3: return block_rounding(largest / (most * tensor_scale_)) * tensor_scale_;
      case BlockScale::none: break;
    }
    return next_power_of_two(largest / most);
  }
  void round(Index first, Index count, double scale) {
    if (scale == 0.0) {  // a block whose scale underflows
      std::fill_n(y_ + first, count, 0.0F);
      return;
    }
    for (Index i = first; i < first + count; ++i) {
      const double value = static_cast<double>(x_[i]) / scale;
      const double rounded = q_.stochastic ? rounding_.stochastic(value, words_.at(i)) : rounding_(value);
      y_[i] = static_cast<float>(rounded * scale);
    }
  }
  void round_to_integers(Index first, Index count, double scale) {
    const auto largest = static_cast<double>(q_.format.largest_integer);
    for (Index i = first; i < first + count; ++i) {
      const double value = scale > 0.0 ? static_cast<double>(x_[i]) / scale : 0.0;
      // The rounded scale may make the largest entry slightly larger than largest·scale.
      const double number =
          std::clamp(q_.stochastic ? stochastic_integer(value, i) : std::nearbyint(value), -largest, largest);
      y_[i] = static_cast<float>(number * scale);
    }
  }
  [[nodiscard]] double stochastic_integer(double value, Index i) {
    const double lower = std::floor(value);
    return static_cast<double>(words_.at(i)) * 0x1p-32 < value - lower ? lower + 1.0 : lower;
  }

  const T* x_;
  float* y_;
  const Quantization& q_;
  Rounding rounding_;
  Words words_;
  double tensor_scale_;
};

template <class T>
void quantize(const Tensor& x, const Quantization& q, Words words, Tensor& y) {
  double tensor_scale = 1.0;
  if (q.format.block_scale == BlockScale::e4m3) {
    const double most = q.format.floating.largest * fp8_e4m3.largest;
    tensor_scale = static_cast<float>(largest_magnitude(elements<T>(x), x.size()) / most);
    if (tensor_scale == 0.0) tensor_scale = std::numeric_limits<float>::denorm_min();
  }
  Group<T> group(elements<T>(x), elements<float>(y), q, words, tensor_scale);
  if (!q.has_scale()) return group.unscaled(0, x.size());
  if (!q.has_blocks() && q.scale == ScaleOver::tensor) return group.scaled(0, x.size());
  const Index length = q.has_blocks() ? q.block : x.cols();
  for (Index row = 0; row < x.rows(); ++row) {
    for (Index col = 0; col < x.cols(); col += length) {
      group.scaled(row * x.cols() + col, std::min(length, x.cols() - col));
    }
  }
}

Tensor quantize_with(const Tensor& x, const Quantization& quantization, Words words) {
  if (quantization.format.is_integer() && quantization.scale == ScaleOver::nothing) {
    throw std::invalid_argument("integer formats require a scale");
  }
  if (x.dtype() == DType::f32 && quantization.keeps_f32()) return x;
  Tensor y = host_tensor(x.rows(), x.cols(), DType::f32);
  if (x.dtype() == DType::f64) {
    quantize<double>(x, quantization, words, y);
  } else {
    quantize<float>(x, quantization, words, y);
  }
  return y;
}

template <class T>
std::vector<double> square_errors_of(const Tensor& x, const Quantization& quantization) {
  // Stochastic rounding rounds up (in magnitude, for floating-point formats) if its word is small enough: the smallest
  // word yields one neighbour, the largest word the other. Rounding to nearest uses no word.
  const Tensor up = quantize_with(x, quantization, Words(0));
  const Tensor down =
      quantization.stochastic ? quantize_with(x, quantization, Words(std::numeric_limits<std::uint32_t>::max())) : up;
  std::vector<double> squares(static_cast<std::size_t>(x.size()));
  for (Index i = 0; i < x.size(); ++i) {
    const auto value = static_cast<double>(elements<T>(x)[i]);
    const double above = static_cast<double>(elements<float>(up)[i]) - value;
    const double below = static_cast<double>(elements<float>(down)[i]) - value;
    squares[static_cast<std::size_t>(i)] = std::abs(above * below);
  }
  return squares;
}

}  // namespace

Tensor quantized(const Tensor& x, const Quantization& quantization, StreamKey key, std::uint64_t first) {
  return quantize_with(x, quantization, Words(key, first));
}

std::vector<double> square_errors(const Tensor& x, const Quantization& quantization) {
  return x.dtype() == DType::f64 ? square_errors_of<double>(x, quantization) : square_errors_of<float>(x, quantization);
}

}  // namespace periscope
