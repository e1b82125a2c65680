#include "sim/emulated/quantize.h"

#include <algorithm>
#include <cmath>

#include "sim/backends.h"
#include "sim/core/storage.h"
#include "sim/random/philox.h"
#include "tests/emulated/stored_values.h"
#include "tests/support/doctest.h"
#include "tests/support/significance.h"
#include "tests/support/targets.h"

/// Quantised tensors against their definition, entry by entry.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;

const Backend& quick() {
  static const std::unique_ptr<Backend> backend = make_backend("cpu");
  return *backend;
}

constexpr StreamKey key{5, 2, Stream{77}};

Quantization quantization(std::string_view format, ScaleOver scale, bool stochastic = false) {
  return {.format = *find_tensor_format(format),
          .scale = scale,
          .overflow = Rounding::Overflow::by_format,
          .stochastic = stochastic};
}

/// Rows of very different size, so that their scales differ.
Tensor tensor(Index rows, Index cols, DType dtype = DType::f64) {
  std::vector<double> values = truth().to_host(truth().normal(rows, cols, DType::f64, {9, 0, Stream{1}}, 1.0));
  for (Index i = 0; i < rows * cols; ++i) values[static_cast<std::size_t>(i)] *= std::pow(3.0, i / cols - 2);
  return quick().from_host(rows, cols, dtype, values);
}

/// The entries that share a scale with entry i.
std::pair<Index, Index> group_of(ScaleOver scale, Index i, Index cols, Index size) {
  if (scale == ScaleOver::nothing) return {i, i + 1};
  if (scale == ScaleOver::tensor) return {0, size};
  const Index row = i / cols * cols;
  if (scale == ScaleOver::row) return {row, row + cols};
  const Index first = row + (i - row) / 32 * 32;
  return {first, std::min(first + 32, row + cols)};
}

double largest_in(const std::vector<double>& x, std::pair<Index, Index> group) {
  double largest = 0.0;
  for (Index i = group.first; i < group.second; ++i) {
    largest = std::max(largest, std::abs(x[static_cast<std::size_t>(i)]));
  }
  return largest;
}

constexpr ScaleOver scales[] = {ScaleOver::tensor, ScaleOver::row, ScaleOver::block};

TEST_CASE("whole numbers: the scale of the largest entry, the nearest multiple, ties to even") {
  const Tensor x = tensor(5, 75);
  const std::vector<double> in = truth().to_host(x);
  for (const auto& [name, most] : {std::pair("int8", 127), std::pair("int4", 7)}) {
    for (const ScaleOver scale : scales) {
      const std::vector<double> out = values_of(quantized(x, quantization(name, scale), key));
      int wrong = 0;
      for (Index i = 0; i < x.size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double step = static_cast<float>(largest_in(in, group_of(scale, i, x.cols(), x.size())) / most);
        // Python's round and IEEE's remainder both go to the even neighbour.
        const double number = (in[at] - std::remainder(in[at], step)) / step;
        wrong += out[at] != static_cast<float>(std::round(number) * step);
        wrong += std::abs(number) > most + 0.5;
      }
      CHECK(wrong == 0);
    }
  }
  const std::vector<double> ties{127.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.49999};
  const Tensor row = truth().from_host(1, 7, DType::f64, ties);
  CHECK(values_of(quantized(row, quantization("int8", ScaleOver::row), key)) ==
        std::vector<double>{127.0, 0.0, 2.0, 2.0, -0.0, -2.0, 3.0});
}

TEST_CASE("floating: without a scale every entry by itself, with one the largest entry fits") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensor x = tensor(5, 75, dtype);
    const std::vector<double> in = quick().to_host(x);
    for (const NumberFormat& format : number_formats) {
      INFO(format.name);
      const Rounding round(format);
      const std::vector<double> plain = values_of(quantized(x, quantization(format.name, ScaleOver::nothing), key));
      for (std::size_t i = 0; i < in.size(); ++i) REQUIRE(plain[i] == round(in[i]));
      if (dtype == DType::f32 && format.precision >= 24) continue;
      for (const ScaleOver scale : scales) {
        const std::vector<double> out = values_of(quantized(x, quantization(format.name, scale), key));
        for (std::size_t i = 0; i < in.size(); ++i) {
          const double largest = largest_in(in, group_of(scale, static_cast<Index>(i), x.cols(), x.size()));
          double power = 1.0;
          while (largest > power * format.largest) power *= 2.0;
          while (largest <= power / 2.0 * format.largest) power /= 2.0;
          REQUIRE(out[i] == static_cast<double>(static_cast<float>(power * round(in[i] / power))));
        }
      }
    }
  }
}

TEST_CASE("the scale that just fits the largest entry is taken, not its double") {
  const Tensor x = truth().from_host(1, 2, DType::f64, std::vector<double>{4.0 * 448.0, 4.0 * 0x1p-9});
  CHECK(values_of(quantized(x, quantization("fp8_e4m3", ScaleOver::row), key)) == std::vector<double>{1792.0, 0x1p-7});
}

TEST_CASE("a group that is not finite has no scale, zeros stay, other groups do not notice") {
  for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    const Tensor x = truth().from_host(3, 2, DType::f64, std::vector<double>{1.0, bad, 0.0, -0.0, 3.0, 1.0});
    for (const char* name : {"int8", "fp8_e4m3"}) {
      const std::vector<double> y = values_of(quantized(x, quantization(name, ScaleOver::row), key));
      CHECK(std::isnan(y[0]));
      CHECK(std::isnan(y[1]));
      CHECK(y[2] == 0.0);
      CHECK(y[3] == 0.0);
      CHECK(y[4] == 3.0);
    }
  }
  CHECK_THROWS_WITH_AS(quantized(tensor(1, 4), quantization("int8", ScaleOver::nothing), key),
                       "integer formats require a scale", std::invalid_argument);
}

TEST_CASE("stochastic: unbiased, one of two neighbours, entry i from word i alone") {
  for (const char* name : {"bf16", "fp8_e4m3", "int8", "int4"}) {
    INFO(name);
    const ScaleOver scale = find_tensor_format(name)->is_narrow() ? ScaleOver::row : ScaleOver::nothing;
    const Quantization q = quantization(name, scale, true);
    const Tensor x = tensor(4, 300);
    const std::vector<double> in = truth().to_host(x);
    const std::vector<double> nearest = values_of(quantized(x, quantization(name, scale), key));
    const std::vector<double> once = values_of(quantized(x, q, key));
    CHECK(once == values_of(quantized(x, q, key)));
    CHECK(once != nearest);
    CHECK(once != values_of(quantized(x, q, {key.seed, key.layer + 1, key.stream})));
    // The first rows have the same words whatever follows.
    const Tensor top = truth().from_host(2, 300, DType::f64, {in.data(), 600});
    const std::vector<double> of_top = values_of(quantized(top, q, key));
    CHECK(std::equal(of_top.begin(), of_top.end(), once.begin()));
    // A row by itself is rounded like in its tensor if it is told where it stands there.
    const Tensor third = truth().from_host(1, 300, DType::f64, {in.data() + 600, 300});
    const std::vector<double> of_third = values_of(quantized(third, q, key, 600));
    CHECK(std::equal(of_third.begin(), of_third.end(), once.begin() + 600));
    // Equal rows have words of their own.
    std::vector<double> twice(in.begin(), in.begin() + 300);
    twice.insert(twice.end(), in.begin(), in.begin() + 300);
    const std::vector<double> rows = values_of(quantized(truth().from_host(2, 300, DType::f64, twice), q, key));
    CHECK(!std::equal(rows.begin(), rows.begin() + 300, rows.begin() + 300));
    std::vector<double> errors;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const std::vector<double> y = values_of(quantized(x, q, {seed, 0, Stream{7}}));
      for (std::size_t i = 0; i < y.size(); i += 7) {
        const double unit = std::abs(in[i]);
        errors.push_back((y[i] - in[i]) / unit);
        // Within one step: rounding to nearest is within half of one.
        const double row = largest_in(in, group_of(ScaleOver::row, static_cast<Index>(i), 300, 1200));
        const double step = q.format.is_integer() ? row / q.format.largest_integer
                                                  : unit * q.format.floating.spacing_at_1() * 1.01 + row * 1e-4;
        REQUIRE(std::abs(y[i] - in[i]) <= step * 1.000001);
      }
    }
    check_consistent(name, estimate(errors), 0.0);
  }
}

TEST_CASE("stochastic: entry i goes up if word first + i is below its share") {
  constexpr std::size_t count = 700;                            // more than one piece of words
  const std::vector<double> thirds(count, 1.0 + 0x1p-7 / 3.0);  // BF16's spacing at 1 is 2^-7
  const Tensor x = truth().from_host(1, count, DType::f64, thirds);
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{256}, std::uint64_t{1000}}) {
    std::vector<std::uint32_t> words(2048);
    philox_words(key, 0, words);
    const std::vector<double> y = values_of(quantized(x, quantization("bf16", ScaleOver::nothing, true), key, first));
    int wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool up = static_cast<double>(words[first + i]) * 0x1p-32 < 1.0 / 3.0;
      wrong += y[i] != (up ? 1.0 + 0x1p-7 : 1.0);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("square errors: to nearest those of this rounding, in every format and scale") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensor x = tensor(5, 75, dtype);
    const std::vector<double> in = quick().to_host(x);
    for (const TensorFormat& format : tensor_formats) {
      for (const ScaleOver scale : {ScaleOver::nothing, ScaleOver::tensor, ScaleOver::row, ScaleOver::block}) {
        if (format.is_integer() && scale == ScaleOver::nothing) continue;
        INFO(format.name);
        const Quantization q = quantization(format.name, scale);
        const std::vector<double> out = values_of(quantized(x, q, key));
        const std::vector<double> squares = square_errors(x, q);
        REQUIRE(squares.size() == in.size());
        int wrong = 0;
        for (std::size_t i = 0; i < in.size(); ++i) wrong += squares[i] != (out[i] - in[i]) * (out[i] - in[i]);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("square errors: stochastically (x − a)(b − x) between the neighbours, by hand") {
  // E4M3: from 2 to 4 in steps of 1/4, below 2^-6 in steps of 2^-9; zero and numbers of the format have no error.
  const std::vector<double> x{2.3, -2.3, 3.75, 0x1p-9 * 0.1, -0x1p-9 * 2.5, 0.0, 1.99};
  const std::vector<double> by_hand{0.05 * 0.2,          0.05 * 0.2, 0.0,         0.1 * 0.9 * 0x1p-18,
                                    0.5 * 0.5 * 0x1p-18, 0.0,        0.115 * 0.01};
  const Tensor row = truth().from_host(1, 7, DType::f64, x);
  const std::vector<double> e4m3 = square_errors(row, quantization("fp8_e4m3", ScaleOver::nothing, true));
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::abs(e4m3[i] - by_hand[i]) < 1e-14);
  // INT4 over a row whose largest entry is 14: multiples of 2, and 14 itself is one.
  const std::vector<double> numbers{14.0, 0.5, -0.5, -13.0, 2.0, 0.0, 7.9};
  const std::vector<double> int4 =
      square_errors(truth().from_host(1, 7, DType::f64, numbers), quantization("int4", ScaleOver::row, true));
  const std::vector<double> expected{0.0, 0.5 * 1.5, 0.5 * 1.5, 1.0, 0.0, 0.0, 1.9 * 0.1};
  for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(std::abs(int4[i] - expected[i]) < 1e-12);
}

TEST_CASE("square errors: the mean over stochastic roundings, below one step too") {
  for (const char* name : {"bf16", "fp8_e4m3", "fp8_e5m2", "int8", "int4"}) {
    for (const double size : {1.0, 2e-4}) {  // of E4M3's smallest number, 0.00195, a tenth
      INFO(name, " at ", size);
      const Quantization q =
          quantization(name, find_tensor_format(name)->is_integer() ? ScaleOver::block : ScaleOver::nothing, true);
      const Tensor x = truth().normal(4, 75, DType::f64, {9, 0, Stream{2}}, size);
      const std::vector<double> in = truth().to_host(x);
      const std::vector<double> expected = square_errors(x, q);
      double sum = 0.0;
      for (const double e : expected) sum += e;
      std::vector<double> ratios;
      for (std::uint64_t seed = 0; seed < 400; ++seed) {
        const std::vector<double> y = values_of(quantized(x, q, {seed, 0, Stream{7}}));
        double squares = 0.0;
        for (std::size_t i = 0; i < y.size(); ++i) squares += std::pow(y[i] - in[i], 2.0);
        ratios.push_back(squares / sum);
      }
      check_consistent(name, estimate(ratios), 1.0);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
