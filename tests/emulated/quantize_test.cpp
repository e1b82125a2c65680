#include "sim/emulated/quantize.h"

#include <algorithm>
#include <cmath>

#include "sim/backends.h"
#include "sim/core/storage.h"
#include "sim/emulated/rounded_product.h"
#include "sim/random/philox.h"
#include "tests/emulated/backend.h"
#include "tests/support/doctest.h"
#include "tests/support/significance.h"
#include "tests/support/targets.h"

/// Quantized tensors, and their products in a number format.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;

const Backend& quick() {
  static const std::unique_ptr<Backend> backend = make_backend("cpu");
  return *backend;
}

/// Returns the entries of an f32 tensor.
Values values_of(const Tensor& x) { return {elements<float>(x), elements<float>(x) + x.size()}; }

constexpr StreamKey key{5, 2, Stream{77}};

Quantization quantization(std::string_view format, ScaleOver scale, bool stochastic = false) {
  return {.format = *find_tensor_format(format),
          .scale = scale,
          .overflow = Rounding::Overflow::by_format,
          .stochastic = stochastic};
}

Tensor row_of(const Values& values) {
  return truth().from_host(1, static_cast<Index>(values.size()), DType::f64, values);
}

/// Rows of very different magnitude, so that their scales differ.
Tensor tensor(Index rows, Index cols, DType dtype = DType::f64) {
  Values values = truth().to_host(truth().normal(rows, cols, DType::f64, {9, 0, Stream{1}}, 1.0));
  for (Index i = 0; i < rows * cols; ++i) values[static_cast<std::size_t>(i)] *= std::pow(3.0, i / cols - 2);
  return quick().from_host(rows, cols, dtype, values);
}

/// Largest magnitude of the entries that share a scale with entry i.
double largest_in_group(const Values& x, ScaleOver scale, std::size_t i, std::size_t cols) {
  const std::size_t start = i / cols * cols;
  std::size_t first = scale == ScaleOver::tensor ? 0 : start;
  std::size_t end = scale == ScaleOver::tensor ? x.size() : start + cols;
  if (scale == ScaleOver::block) {
    first = start + (i - start) / 32 * 32;
    end = std::min(first + 32, end);
  }
  double largest = 0.0;
  for (; first < end; ++first) largest = std::max(largest, std::abs(x[first]));
  return largest;
}

constexpr ScaleOver scales[] = {ScaleOver::nothing, ScaleOver::tensor, ScaleOver::row, ScaleOver::block};

TEST_CASE("every format and scale rounds to nearest; square_errors returns the squared errors") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensor x = tensor(5, 75, dtype);
    const Values in = quick().to_host(x);
    for (const TensorFormat& format : tensor_formats) {
      for (const ScaleOver scale : scales) {
        INFO(format.name, " ", scale_over_names[static_cast<std::size_t>(scale)]);
        if (format.has_block_scale() || (format.is_integer() && scale == ScaleOver::nothing)) continue;
        const Quantization q = quantization(format.name, scale);
        if (q.keeps_f32() && dtype == DType::f32) continue;
        const Values out = values_of(quantized(x, q, key));
        const Values squares = square_errors(x, q);
        const Rounding round(format.floating);
        int wrong = 0;
        for (std::size_t i = 0; i < in.size(); ++i) {
          const double largest = scale == ScaleOver::nothing ? 0.0 : largest_in_group(in, scale, i, 75);
          double expected = round(in[i]);
          if (format.is_integer()) {
            const double step = static_cast<float>(largest / format.largest_integer);
            // std::remainder uses the nearest multiple, ties to even.
            expected = std::round((in[i] - std::remainder(in[i], step)) / step) * step;
          } else if (largest > 0.0) {
            const double power = std::exp2(std::ceil(std::log2(largest / format.floating.largest)));
            expected = power * round(in[i] / power);
          }
          wrong += out[i] != static_cast<double>(static_cast<float>(expected));
          wrong += squares[i] != (out[i] - in[i]) * (out[i] - in[i]);
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("quantization handles ties, the largest number of a scale, and groups with NaN, infinity or only zeros") {
  CHECK(values_of(quantized(row_of({127.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.49999}), quantization("int8", ScaleOver::row),
                            key)) == Values{127.0, 0.0, 2.0, 2.0, -0.0, -2.0, 3.0});
  CHECK(values_of(quantized(row_of({4.0 * 448.0, 4.0 * 0x1p-9}), quantization("fp8_e4m3", ScaleOver::row), key)) ==
        Values{1792.0, 0x1p-7});
  for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    for (const char* name : {"int8", "fp8_e4m3"}) {
      const Tensor x = truth().from_host(3, 2, DType::f64, Values{1.0, bad, 0.0, -0.0, 3.0, 1.0});
      const Values y = values_of(quantized(x, quantization(name, ScaleOver::row), key));
      CHECK((std::isnan(y[0]) && std::isnan(y[1])));
      CHECK((y[2] == 0.0 && y[3] == 0.0 && y[4] == 3.0));
    }
  }
  CHECK_THROWS_AS(quantized(tensor(1, 4), quantization("int8", ScaleOver::nothing), key), std::invalid_argument);
}

TEST_CASE("formats with block scales equal ml_dtypes' element types with the scales of their specifications") {
  // Python: ml_dtypes 0.6 casts (clipped) x/s to float4_e2m1fn, float8_e4m3fn or float8_e5m2, and the scale to
  // float8_e8m0fnu (blocks of 32) or float8_e4m3fn (blocks of 16, after division by the tensor's binary32 scale).
  const Values x{0.0014, 0.3184,  -0.0805, 11.0,    -1.7694, -0.2111, 0.142,   1.5101,  -0.2592, -4.5866,
                 1.0498, 0.1076,  0.1136,  -1.6564, -0.0242, 1.3764,  -1.2577, -0.8918, -8.0126, -0.6561,
                 0.0,    -0.1479, -1.4395, 0.0828,  0.0878,  -0.1536, -6.1826, -1.6932, -0.0129, 0.0512,
                 -2.922, -0.0651, -0.6158, -0.7339, 3.729,   -1.609,  -0.0234, 0.6117,  -0.4544, -0.5125};
  const std::pair<const char*, Values> expected[] = {
      {"mxfp4", {0.0,  0.0, -0.0, 12.0, -2.0, -0.0,  0.0, 2.0,  -0.0, -4.0, 1.0,  0.0,  0.0,  -2.0,
                 -0.0, 1.0, -1.0, -1.0, -8.0, -1.0,  0.0, -0.0, -1.0, 0.0,  0.0,  -0.0, -6.0, -2.0,
                 -0.0, 0.0, -3.0, -0.0, -0.5, -0.75, 3.0, -1.5, -0.0, 0.5,  -0.5, -0.5}},
      {"mxfp8_e4m3", {0.0013427734375, 0.3125,   -0.078125, 11.0,     -1.75,         -0.21875,   0.140625,   1.5,
                      -0.25,           -4.5,     1.0,       0.109375, 0.1171875,     -1.625,     -0.0234375, 1.375,
                      -1.25,           -0.875,   -8.0,      -0.625,   0.0,           -0.140625,  -1.5,       0.0859375,
                      0.0859375,       -0.15625, -6.0,      -1.75,    -0.0126953125, 0.05078125, -3.0,       -0.0625,
                      -0.625,          -0.75,    3.5,       -1.625,   -0.0234375,    0.625,      -0.46875,   -0.5}},
      {"mxfp8_e5m2",
       {0.00146484375, 0.3125,   -0.078125, 12.0,     -1.75,      -0.21875, 0.15625,    1.5,    -0.25,        -5.0,
        1.0,           0.109375, 0.109375,  -1.75,    -0.0234375, 1.5,      -1.25,      -0.875, -8.0,         -0.625,
        0.0,           -0.15625, -1.5,      0.078125, 0.09375,    -0.15625, -6.0,       -1.75,  -0.013671875, 0.0546875,
        -3.0,          -0.0625,  -0.625,    -0.75,    3.5,        -1.5,     -0.0234375, 0.625,  -0.4375,      -0.5}},
      {"nvfp4",
       {0.0,          0.0,          -0.0,        11.000001F,  -1.8333335F, -0.0,        0.0,          1.8333335F,
        -0.0,         -5.5000005F,  0.91666675F, 0.0,         0.0,         -1.8333335F, -0.0,         1.8333335F,
        -1.3095238F,  -0.6547619F,  -7.8571434F, -0.6547619F, 0.0,         -0.0,        -1.3095238F,  0.0,
        0.0,          -0.0,         -5.2380953F, -1.9642859F, -0.0,        0.0,         -2.6190476F,  -0.0,
        -0.58928573F, -0.58928573F, 3.5357144F,  -1.7678572F, -0.0,        0.58928573F, -0.58928573F, -0.58928573F}}};
  for (const auto& row : expected) {
    INFO(row.first);
    for (const ScaleOver ignored : scales)
      CHECK(values_of(quantized(row_of(x), quantization(row.first, ignored), key)) == row.second);
  }
}

/// Rounds to nearest by search among the multiples of `scale` by numbers of E2M1, ties to the even significand.
double nearest_fp4(double x, double scale) {
  double best = 0.0;
  int i = 0;
  for (const double g : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0}) {
    const double gap = std::abs(std::abs(x) - g * scale) - std::abs(std::abs(x) - best * scale);
    if (gap < 0.0 || (gap == 0.0 && i % 2 == 0)) best = g;
    ++i;
  }
  return std::copysign(best * scale, x);
}

TEST_CASE("FP4 with blocks of any length; blocks that are infinite, zero, or tiny next to the rest of the tensor") {
  const Tensor x = tensor(3, 21);
  const Values in = quick().to_host(x);
  for (const int block : {1, 4, 16, 50}) {
    Quantization q = quantization("mxfp4", ScaleOver::nothing);
    q.block = block;
    const Values out = values_of(quantized(x, q, key));
    int wrong = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::size_t first = i / 21 * 21 + i % 21 / block * block;
      double largest = 0.0;
      for (std::size_t j = first; j < std::min(first + block, i / 21 * 21 + 21); ++j)
        largest = std::max(largest, std::abs(in[j]));
      wrong += out[i] != nearest_fp4(in[i], std::exp2(std::floor(std::log2(largest)) - 2.0));
    }
    CHECK(wrong == 0);
  }
  const auto blocks_of_2 = [&](const char* name, const Values& values) {
    Quantization q = quantization(name, ScaleOver::nothing);
    q.block = 2;
    return values_of(quantized(row_of(values), q, key));
  };
  const Values mx = blocks_of_2("mxfp4", {HUGE_VAL, 1.0, 0.0, -0.0, 0x1p-140, 0x1p-127});
  CHECK((std::isnan(mx[0]) && std::isnan(mx[1])));
  CHECK(Values(mx.begin() + 2, mx.end()) == Values{0.0, 0.0, 0.0, 0x1p-127});
  for (const double v : blocks_of_2("nvfp4", {HUGE_VAL, 1.0, 0.0, 2.0})) CHECK(std::isnan(v));
  // The smallest scale of a block is 2^-9 of the tensor's, so blocks below 6·2^-10 of it become zero.
  CHECK(blocks_of_2("nvfp4", {2688.0, -3.0, 0.0, 0.0, 6.0 * 0x1p-9, 0.0, 2.9 * 0x1p-9, 0.0}) ==
        Values{2688.0, -0.0, 0.0, 0.0, 6.0 * 0x1p-9, 0.0, 0.0, 0.0});
  for (const double v : blocks_of_2("nvfp4", {0.0, -0.0, 1e-300, 0.0})) CHECK(v == 0.0);
}

TEST_CASE("stochastic rounding is unbiased, also below one step, and has the mean square of square_errors") {
  for (const char* name :
       {"bf16", "fp8_e4m3", "fp8_e5m2", "int8", "int4", "mxfp8_e5m2", "mxfp8_e4m3", "mxfp4", "nvfp4"}) {
    for (const double size : {1.0, 2e-4}) {  // the second is a tenth of the smallest number of E4M3, 0.00195
      INFO(name, " at ", size);
      const bool integer = find_tensor_format(name)->is_integer();
      const Quantization q = quantization(name, integer ? ScaleOver::block : ScaleOver::nothing, true);
      const Tensor x = truth().normal(4, 75, DType::f64, {9, 0, Stream{2}}, size);
      const Values in = truth().to_host(x);
      const Values expected = square_errors(x, q);
      double sum = 0.0;
      for (const double e : expected) sum += e;
      Values ratios, biases;
      for (std::uint64_t seed = 0; seed < 400; ++seed) {
        const Values y = values_of(quantized(x, q, {seed, 0, Stream{7}}));
        double squares = 0.0;
        double bias = 0.0;
        for (std::size_t i = 0; i < y.size(); ++i) {
          squares += std::pow(y[i] - in[i], 2.0);
          bias += y[i] - in[i];
        }
        ratios.push_back(squares / sum);
        biases.push_back(bias / std::sqrt(sum));
      }
      check_consistent(name, estimate(ratios), 1.0);
      // The largest entries of blocks saturate, which is a bias.
      if (!q.format.has_block_scale()) check_consistent(name, estimate(biases), 0.0);
    }
  }
  // E4M3 has spacing 1/4 from 2 to 4 and 2^-9 below 2^-6; zero and numbers of the format have no error.
  const Values x{2.3, -2.3, 3.75, 0x1p-9 * 0.1, -0x1p-9 * 2.5, 0.0, 1.99};
  const Values by_hand{0.05 * 0.2, 0.05 * 0.2, 0.0, 0.1 * 0.9 * 0x1p-18, 0.5 * 0.5 * 0x1p-18, 0.0, 0.115 * 0.01};
  const Values e4m3 = square_errors(row_of(x), quantization("fp8_e4m3", ScaleOver::nothing, true));
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::abs(e4m3[i] - by_hand[i]) < 1e-14);
}

TEST_CASE("stochastic rounding: entry i is rounded up if word first + i is below its fraction") {
  constexpr std::size_t count = 700;               // more than one block of words
  const Values thirds(count, 1.0 + 0x1p-7 / 3.0);  // BF16's spacing at 1 is 2^-7
  for (const std::uint64_t first : {0U, 256U, 1000U}) {
    std::vector<std::uint32_t> words(2048);
    philox_words(key, 0, words);
    const Values y = values_of(quantized(row_of(thirds), quantization("bf16", ScaleOver::nothing, true), key, first));
    int wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      wrong += y[i] != (static_cast<double>(words[first + i]) * 0x1p-32 < 1.0 / 3.0 ? 1.0 + 0x1p-7 : 1.0);
    }
    CHECK(wrong == 0);
  }
}

Tensor operand(Index rows, Index cols, std::uint32_t which, std::string_view format) {
  return quantized(truth().normal(rows, cols, DType::f64, {3, 0, Stream{which}}, 1.0),
                   quantization(format, ScaleOver::nothing), {});
}

Tensor transposed(const Tensor& x) {
  Values turned;
  for (Index j = 0; j < x.cols(); ++j) {
    for (Index i = 0; i < x.rows(); ++i) turned.push_back(values_of(x)[static_cast<std::size_t>(i * x.cols() + j)]);
  }
  return truth().from_host(x.cols(), x.rows(), DType::f64, turned);
}

TEST_CASE("rounded products have the same bits as the emulated op with fused products, forward and backward") {
  for (const char* name : {"bf16", "fp16", "fp8_e5m2", "fp8_e4m3"}) {
    INFO(name);
    const NumberFormat format = find_tensor_format(name)->floating;
    const auto ops =
        make_emulated_backend(truth(), {.arithmetic = run_arithmetic(Arithmetic::pure, format), .fused = true});
    const Rounding round(format);
    // 70 columns are one full strip and a partial one.
    const Tensor x = operand(6, 30, 1, name);
    const Tensor w = operand(70, 30, 2, name);
    const Tensor dy = operand(6, 70, 3, name);
    const auto same = [](const Tensor& t) { return truth().from_host(t.rows(), t.cols(), DType::f64, values_of(t)); };
    const auto product = [&](const Tensor& a, const Tensor& b) { return truth().to_host(ops->linear(a, b)); };
    CHECK(values_of(rounded_linear(x, w, round)) == product(same(x), same(w)));
    CHECK(values_of(rounded_linear_backward_input(dy, w, round)) == product(same(dy), transposed(w)));
    CHECK(values_of(rounded_linear_backward_weight(dy, x, round)) == product(transposed(dy), transposed(x)));
  }
}

}  // namespace
}  // namespace periscope::testing
