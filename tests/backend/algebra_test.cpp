#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/core/storage.h"
#include "sim/numerics/rounding.h"
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
