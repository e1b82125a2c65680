#include "sim/cpu/gemm.h"

#include <cmath>
#include <vector>

#include "sim/random/normal.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/threads.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

/// Matrix products of the CPU backend, compared with sums in double at the edges of blocks, slivers and panels.
namespace periscope::testing {
namespace {

using cpu::Index;
using cpu::MatrixView;

template <class T>
std::vector<T> numbers(Index count, std::uint64_t seed) {
  std::vector<T> x(static_cast<std::size_t>(count));
  fill_normal<T>({seed, 0, Stream{7}}, 0, 1.0, x);
  return x;
}

/// A view of a row-major or column-major matrix.
template <class T>
MatrixView<T> view(const std::vector<T>& x, Index rows, Index cols, bool by_rows) {
  return by_rows ? MatrixView<T>{x.data(), cols, 1} : MatrixView<T>{x.data(), 1, rows};
}

template <class T>
double at(const MatrixView<T>& x, Index i, Index j) {
  return static_cast<double>(x.data[i * x.row + j * x.col]);
}

/// Σ_k a_ik b_kj and the sum of the magnitudes of its terms.
template <class T>
std::pair<double, double> exact(const MatrixView<T>& a, const MatrixView<T>& b, Index k, Index i, Index j) {
  double sum = 0.0, size = 0.0;
  for (Index term = 0; term < k; ++term) {
    sum += at(a, i, term) * at(b, term, j);
    size += std::abs(at(a, i, term) * at(b, term, j));
  }
  return {sum, size};
}

constexpr Index row_counts[] = {1, 2, 5, 6, 7, 13, 14, 15, 29, 67};
constexpr Index column_counts[] = {1, 7, 31, 32, 33, 300};
constexpr Index term_counts[] = {1, 15, 17, 255, 256, 257, 513};

template <class T>
void check_products(bool a_by_rows, bool b_by_rows) {
  for (const Index m : row_counts) {
    for (const Index n : column_counts) {
      for (const Index k : term_counts) {
        INFO("m := ", m, ", n := ", n, ", k := ", k);
        const std::vector<T> left = numbers<T>(m * k, 1);
        const std::vector<T> right = numbers<T>(k * n, 2);
        const MatrixView<T> a = view(left, m, k, a_by_rows);
        const MatrixView<T> b = view(right, k, n, b_by_rows);
        const Index stride = n + 3;
        std::vector<T> c(static_cast<std::size_t>(m * stride), T(-7));
        std::vector<T> serial = c;
        cpu::gemm<T>(m, n, k, a, b, c.data(), stride);
        cpu::serial_gemm<T>(m, n, k, a, b, serial.data(), stride);
        CHECK(c == serial);
        std::vector<T> twice = serial;
        cpu::serial_gemm<T>(m, n, k, a, b, twice.data(), stride, cpu::Output::accumulate);
        bool right_everywhere = true;
        bool untouched = true;
        bool added = true;
        for (Index i = 0; i < m; ++i) {
          for (Index j = 0; j < stride; ++j) {
            const double value = static_cast<double>(c[static_cast<std::size_t>(i * stride + j)]);
            if (j >= n) {
              untouched = untouched && value == -7.0;
              continue;
            }
            const auto [sum, size] = exact(a, b, k, i, j);
            const double error = dot_error(static_cast<double>(k), dtype_of<T>) * size;
            right_everywhere = right_everywhere && std::abs(value - sum) <= error;
            const auto more = static_cast<double>(twice[static_cast<std::size_t>(i * stride + j)]);
            // Accumulation takes the same number of roundings, but its sums are up to twice as large.
            added = added && std::abs(more - 2.0 * sum) <= 2.0 * error + rounding_bound(1, dtype_of<T>) * 2.0 * size;
          }
        }
        CHECK(right_everywhere);
        CHECK(untouched);
        CHECK(added);
      }
    }
  }
}

TEST_CASE("gemm matches sums in double for both types and storage orders, at all edges of blocks" *
          doctest::test_suite("slow")) {
  for (const bool a_by_rows : {true, false}) {
    for (const bool b_by_rows : {true, false}) {
      INFO("a_by_rows := ", a_by_rows, ", b_by_rows := ", b_by_rows);
      check_products<float>(a_by_rows, b_by_rows);
      check_products<double>(a_by_rows, b_by_rows);
    }
  }
}

template <class T>
void check_rows_alone() {
  constexpr Index m = 41, n = 700, k = 600;
  const std::vector<T> left = numbers<T>(m * k, 1);
  const std::vector<T> right = numbers<T>(k * n, 2);
  std::vector<T> all(m * n), alone(n);
  cpu::gemm<T>(m, n, k, {left.data(), k}, {right.data(), n}, all.data(), n);
  for (const Index i : {Index{0}, Index{13}, Index{14}, Index{40}}) {
    cpu::gemm<T>(1, n, k, {left.data() + i * k, k}, {right.data(), n}, alone.data(), n);
    CHECK(std::equal(alone.begin(), alone.end(), all.begin() + i * n));
  }
}

TEST_CASE("gemm: the bits of a row do not depend on the number of rows") {
  check_rows_alone<float>();
  check_rows_alone<double>();
}

template <class T>
void check_lower() {
  constexpr Index n = 300, k = 70;
  const std::vector<T> x = numbers<T>(n * k, 3);
  const MatrixView<T> a{x.data(), k};
  std::vector<T> whole(n * n), lower(n * n, T(0));
  cpu::gemm<T>(n, n, k, a, a.transposed(), whole.data(), n);
  cpu::gemm<T>(n, n, k, a, a.transposed(), lower.data(), n, cpu::Part::lower);
  Index different = 0;
  Index left_out = 0;
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      const auto place = static_cast<std::size_t>(i * n + j);
      if (j <= i && lower[place] != whole[place]) ++different;
      if (j > i && lower[place] == T(0)) ++left_out;
    }
  }
  CHECK(different == 0);
  CHECK(left_out > n * n / 3);  // otherwise the upper half was computed too
}

TEST_CASE("gemm: the lower triangle has the same bits as in the whole product") {
  check_lower<float>();
  check_lower<double>();
}

TEST_CASE("linear_drawn has the same bits as linear with the matrix in memory") {
  for (const Target& target : targets()) {
    const Backend& ops = *target.backend;
    for (const Index rows : {Index{1}, Index{67}}) {
      for (const Index in : {Index{1}, Index{33}, Index{258}, Index{515}}) {
        for (const Index out : {Index{1}, Index{31}, Index{321}}) {
          const DrawnMatrix w{out, in, {9, 2, Stream{4}}, 0.37};
          const Tensor dense = ops.normal(out, in, target.dtype, w.key, w.stddev);
          const Tensor x = normal_twin(target, rows, in, 20).here;
          const Tensor dy = normal_twin(target, rows, out, 21).here;
          check_same_bits("linear_drawn", ops.to_host(ops.linear_drawn(x, w)), ops.to_host(ops.linear(x, dense)));
          check_same_bits("linear_drawn_backward_input", ops.to_host(ops.linear_drawn_backward_input(dy, w)),
                          ops.to_host(ops.linear_backward_input(dy, dense)));
        }
      }
    }
  }
}

/// Compares ‖dyᵀ x‖² with the reference. The error is relative to Σ_st Σ|x_s||x_t| Σ|dy_s||dy_t| = ‖|dy|ᵀ|x|‖², whether
/// the square is computed from Gram matrices or from the gradient.
void check_square(const Target& target, const Twin& dy, const Twin& x) {
  const double sums = static_cast<double>(x.here.rows() + x.here.cols() + dy.here.cols());
  const double size = truth().to_host(truth().linear_weight_square(magnitude(dy.truth), magnitude(x.truth))).front();
  check_close(target.name() + " linear_weight_square",
              target.backend->to_host(target.backend->linear_weight_square(dy.here, x.here)),
              truth().to_host(truth().linear_weight_square(dy.truth, x.truth)),
              2.0 * dot_error(sums, target.dtype) * size);
}

TEST_CASE("linear_weight_square matches the reference, computed from the gradient or from Gram matrices") {
  for (const Target& target : targets()) {
    for (const Index rows : {Index{1}, Index{2}, Index{33}, Index{130}}) {
      for (const Index in : {Index{1}, Index{64}, Index{257}}) {
        for (const Index out : {Index{1}, Index{64}, Index{515}}) {
          INFO("rows := ", rows, ", in := ", in, ", out := ", out);
          check_square(target, normal_twin(target, rows, out, 22), normal_twin(target, rows, in, 23));
        }
      }
    }
  }
}

TEST_CASE("linear_weight_square is accurate despite cancellation between nearly equal tokens") {
  constexpr Index rows = 16, in = 257, out = 129;
  for (const Target& target : targets()) {
    // Rows of x differ by about 2^-9; the second half of dy is the negative of the first.
    std::vector<double> x = numbers<double>(rows * in, 5);
    const std::vector<double> common = numbers<double>(in, 6);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = common[i % in] + 0x1p-9 * x[i];
    std::vector<double> dy = numbers<double>(rows * out, 7);
    for (std::size_t i = rows / 2 * out; i < dy.size(); ++i) dy[i] = -dy[i - rows / 2 * out];
    const Twin xs = twin_of(target, rows, in, x);
    const Twin dys = twin_of(target, rows, out, dy);
    const double expected = truth().to_host(truth().linear_weight_square(dys.truth, xs.truth)).front();
    const double found = target.backend->to_host(target.backend->linear_weight_square(dys.here, xs.here)).front();
    // An entry of the gradient is a sum of 16 products near 1, whose error is up to 16·16 u. The sum cancels to about
    // 4·2^-9, so its relative error is up to 2^15 u.
    CHECK(std::abs(found / expected - 1.0) < 2.0 * 0x1p15 * unit_roundoff(target.dtype));
  }
}

TEST_CASE("linear_weight_square is accurate for entries whose squares underflow in the dtype") {
  constexpr Index rows = 4, in = 65, out = 33;
  for (const Target& target : targets()) {
    if (format_of(target.dtype).least_exponent > -126) continue;  // f16: the gradient itself underflows
    const double size = target.dtype == DType::f64 ? 0x1p-520 : 0x1p-80;
    std::vector<double> dy = numbers<double>(rows * out, 8);
    for (double& v : dy) v *= size;
    const Twin xs = twin_of(target, rows, in, numbers<double>(rows * in, 9));
    const Twin dys = twin_of(target, rows, out, dy);
    const Tensor large = truth().scale(1.0 / size, dys.truth);
    const double expected = truth().to_host(truth().linear_weight_square(large, xs.truth)).front();
    const Tensor square = target.backend->linear_weight_square(dys.here, xs.here);
    const double found = target.backend->to_host(square).front() / size / size;
    // In f64 the squared gradient is subnormal and has fewer digits.
    const double subnormal_error = target.dtype == DType::f64 ? 1e-6 : 0.0;
    CHECK(std::abs(found / expected - 1.0) < subnormal_error + rounding_bound_of_both(64.0, target.dtype) * 16.0);
  }
}

}  // namespace
}  // namespace periscope::testing
