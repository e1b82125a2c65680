#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "sim/core/storage.h"
#include "sim/cuda/element.h"
#include "sim/cuda/on_host/backend.h"
#include "sim/numerics/rounding.h"
#include "sim/random/normal.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

namespace periscope::testing {
namespace {

using Index = Tensor::Index;
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST_CASE("from_host and to_host round-trip values, rounded to the dtype") {
  for (const Target& target : targets()) {
    CAPTURE(target.name());
    const std::vector<double> values{0.1, -0.0, 1e300, 1e-300, infinity, -3.0};
    const Tensor x = target.backend->from_host(2, 3, target.dtype, values);
    CHECK(x.rows() == 2);
    CHECK(x.cols() == 3);
    CHECK(x.dtype() == target.dtype);
    std::vector<double> expected = values;
    if (target.dtype == DType::f32) expected = {static_cast<double>(0.1F), -0.0, infinity, 0.0, infinity, -3.0};
    check_same_bits("round trip", target.backend->to_host(x), expected);
    const Tensor c = target.backend->constant(3, 5, target.dtype, 0.1);
    check_same_bits("constant", target.backend->to_host(c), std::vector<double>(15, expected[0]));
  }
}

TEST_CASE("elements() throws for the wrong dtype") {
  const Tensor x = truth().constant(1, 1, DType::f64, 1.0);
  CHECK_THROWS_AS((void)elements<float>(x), std::logic_error);
}

TEST_CASE("normal: every backend draws the numbers of the reference, rounded to the dtype") {
  for (const Target& target : targets_of_every_dtype()) {
    const Rounding round(format_of(target.dtype));
    for (const Index cols : {Index{1}, Index{33}, Index{257}, Index{1025}}) {
      CAPTURE(cols);
      const StreamKey key{.seed = 3, .layer = 1, .stream = Stream{4}};
      std::vector<double> expected = truth().to_host(truth().normal(67, cols, DType::f64, key, 0.37));
      for (double& x : expected) x = round(x);
      const Tensor x = target.backend->normal(67, cols, target.dtype, key, 0.37);
      check_same_bits(target.name() + " normal", target.backend->to_host(x), expected);
    }
  }
}

TEST_CASE("normal: the CUDA backend rounds the product with the standard deviation once") {
  constexpr Index rows = 511;
  constexpr Index cols = 1023;  // rows · cols mod 8 = 1, so that the last thread stores one
  const StreamKey key{.seed = 5, .layer = 2, .stream = Stream{3}};
  std::vector<float> unit(rows * cols);
  fill_normal<float>(key, 0, 1.0, unit);
  const auto backend = make_cuda_backend_on_host();
  std::vector<double> stddevs{0.02, 0.37, -0.37, 1.0, 0.25, 0.0};
  for (const double s : {1e-5, 1e-7, 2e4}) stddevs.push_back(s);  // f16: subnormal numbers and overflow
  for (const double s : {1e-30, 1e30, 0x1p-61, 0x1p61, 1e-38, 1e-45, 1e38, 1e39}) stddevs.push_back(s);  // bf16, f32
  for (const double s : {0x1p-31, -0x1p-31}) stddevs.push_back(0x1.01234p0 + s);  // a margin of 2⁻²⁴ fails
  for (const double s : {0x1p-49, -0x1p-49}) stddevs.push_back(1.5 + s);          // products close to ties
  for (const double stddev : stddevs) {
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      CAPTURE(stddev);
      CAPTURE(name_of(dtype));
      const Tensor y = backend->normal(rows, cols, dtype, key, stddev);
      cuda::with_type(dtype, [&]<class T>(T) {
        const T* drawn = static_cast<const T*>(TensorMemory::on_host(y, dtype));
        Index wrong = 0;
        for (const float u : unit) {
          const T expected = cuda::from_double<T>(stddev * static_cast<double>(u));
          using Bytes = std::array<std::byte, sizeof(T)>;
          wrong += std::bit_cast<Bytes>(expected) != std::bit_cast<Bytes>(*drawn++) ? 1 : 0;
        }
        CHECK(wrong == 0);
      });
    }
  }
}

TEST_CASE("linear matches the reference for every combination of odd rows, fan-in and fan-out") {
  for (const Target& target : targets()) {
    for (const Index in : odd_sizes) {
      for (const Index out : odd_sizes) {
        const Twin w = normal_twin(target, out, in, 1);
        for (const Index rows : odd_sizes) {
          INFO("rows := ", rows, ", in := ", in, ", out := ", out);
          const Twin x = normal_twin(target, rows, in, 2);
          const Tensor y = target.backend->linear(x.here, w.here);
          REQUIRE(y.rows() == rows);
          REQUIRE(y.cols() == out);
          const Tensor bound = truth().linear(magnitude(x.truth), magnitude(w.truth));
          check_close(target.name() + " linear", target.backend->to_host(y),
                      truth().to_host(truth().linear(x.truth, w.truth)),
                      scaled(dot_error(static_cast<double>(in), target.dtype), truth().to_host(bound)));
        }
      }
    }
  }
}

TEST_CASE("from_rows: filling row blocks gives the same tensor as from_host") {
  for (const auto& [rows, cols] : {std::pair<Tensor::Index, Tensor::Index>{1, 1}, {3, 5}, {1000, 700}, {2, 300000}}) {
    const auto at = [cols = cols](Tensor::Index i, Tensor::Index j) {
      return std::sin(static_cast<double>(i * cols + j));
    };
    std::vector<double> whole;
    for (Tensor::Index i = 0; i < rows; ++i)
      for (Tensor::Index j = 0; j < cols; ++j) whole.push_back(at(i, j));
    const auto check = [&, rows = rows, cols = cols](const Backend& ops, DType dtype) {
      std::atomic<Tensor::Index> written = 0;
      std::atomic<bool> fits = true;  // doctest assertions are not thread-safe
      const auto fill = [&]<class T>(Tensor::Index first, Tensor::Index count, std::span<T> values) {
        fits = fits && static_cast<Tensor::Index>(values.size()) == count * cols;
        written += count;
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<T>(whole[static_cast<std::size_t>(first * cols) + i]);
        }
      };
      const Tensor made = ops.from_rows(rows, cols, dtype, fill);
      CHECK(fits);
      CHECK(written == rows);
      CHECK((made.rows() == rows && made.cols() == cols));
      CHECK(ops.to_host(made) == ops.to_host(ops.from_host(rows, cols, dtype, whole)));
    };
    for (const Target& target : targets_and_truth()) check(*target.backend, target.dtype);
  }
}

}  // namespace
}  // namespace periscope::testing
