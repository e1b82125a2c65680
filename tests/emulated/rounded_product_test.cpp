#include "sim/emulated/rounded_product.h"

#include "sim/backends.h"
#include "sim/core/storage.h"
#include "sim/emulated/quantize.h"
#include "tests/emulated/backend.h"
#include "tests/emulated/stored_values.h"
#include "tests/support/doctest.h"
#include "tests/support/targets.h"

/// Sums accumulated in a format, and the quick way to sums in f32, against the emulated ops, which round step by step.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;

Tensor numbers(Index rows, Index cols, std::uint32_t which, std::string_view format) {
  return quantized(truth().normal(rows, cols, DType::f64, {3, 0, Stream{which}}, 1.0),
                   {.format = *find_tensor_format(format)}, {});
}

Tensor in_f64(const Tensor& x) { return truth().from_host(x.rows(), x.cols(), DType::f64, values_of(x)); }

Tensor transposed(const Tensor& x) {
  std::vector<double> turned;
  const std::vector<double> values = values_of(x);
  for (Index j = 0; j < x.cols(); ++j) {
    for (Index i = 0; i < x.rows(); ++i) turned.push_back(values[static_cast<std::size_t>(i * x.cols() + j)]);
  }
  return truth().from_host(x.cols(), x.rows(), DType::f64, turned);
}

constexpr const char* formats[] = {"bf16", "fp16", "fp8_e5m2", "fp8_e4m3"};

TEST_CASE("every partial sum in the format: bit for bit the emulated op with fused products, forward and backward") {
  for (const char* name : formats) {
    INFO(name);
    const NumberFormat format = find_tensor_format(name)->floating;
    const auto ops =
        make_emulated_backend(truth(), {.arithmetic = run_arithmetic(Arithmetic::pure, format), .fused = true});
    const Rounding round(format);
    // 70 columns are a strip and a piece of one.
    const Tensor x = numbers(6, 90, 1, name);
    const Tensor w = numbers(70, 90, 2, name);
    const Tensor dy = numbers(6, 70, 3, name);
    const auto expected = [&](const Tensor& a, const Tensor& b) { return truth().to_host(ops->linear(a, b)); };
    CHECK(values_of(rounded_linear(x, w, round)) == expected(in_f64(x), in_f64(w)));
    CHECK(values_of(rounded_linear_backward_input(dy, w, round)) == expected(in_f64(dy), transposed(w)));
    CHECK(values_of(rounded_linear_backward_weight(dy, x, round)) == expected(transposed(dy), transposed(x)));
    // It matters: sums in f32 are others.
    CHECK(values_of(rounded_linear(x, w, round)) !=
          values_of(quantized(truth().linear(in_f64(x), in_f64(w)), {.format = *find_tensor_format(name)}, {})));
  }
}

TEST_CASE("sums in f32 by the quick product, stored once: the emulated op's number, or its neighbour next to a tie") {
  const auto quick = make_backend("cpu");
  for (const char* name : formats) {
    INFO(name);
    const NumberFormat format = find_tensor_format(name)->floating;
    const auto ops = make_emulated_backend(truth(), {.arithmetic = run_arithmetic(Arithmetic::mixed, format)});
    const Rounding round(format);
    const Tensor x = numbers(6, 90, 1, name);
    const Tensor w = numbers(70, 90, 2, name);
    const std::vector<double> stepwise = truth().to_host(ops->linear(in_f64(x), in_f64(w)));
    const std::vector<double> sums = values_of(quick->linear(x, w));
    // Either order of the sum is within γ_n Σ|x||w| of the exact one.
    const Tensor sizes = truth().from_host(70, 90, DType::f64, [&] {
      std::vector<double> all = values_of(w);
      for (double& v : all) v = std::abs(v);
      return all;
    }());
    std::vector<double> x_sizes = values_of(x);
    for (double& v : x_sizes) v = std::abs(v);
    const std::vector<double> magnitudes =
        truth().to_host(truth().linear(truth().from_host(6, 90, DType::f64, x_sizes), sizes));
    int apart = 0;
    for (std::size_t i = 0; i < stepwise.size(); ++i) {
      const double slack = 2.0 * rounding_bound(90, fp32.unit_roundoff()) * magnitudes[i];
      const bool possible = stepwise[i] >= round(sums[i] - slack) && stepwise[i] <= round(sums[i] + slack);
      CHECK(possible);
      apart += stepwise[i] != round(sums[i]);
    }
    CHECK(apart <= 4);  // of 420: ties are rare
  }
}

}  // namespace
}  // namespace periscope::testing
