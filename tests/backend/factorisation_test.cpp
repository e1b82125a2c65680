#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

namespace periscope::testing {
namespace {

using Index = Tensor::Index;

/// The result of row_basis, copied to the host.
struct Factors {
  Index rows, n;
  std::vector<double> x, lower, basis;

  Factors(const Target& target, const Tensor& tensor) : rows(tensor.rows()), n(tensor.cols()) {
    const RowBasis b = target.backend->row_basis(tensor);
    x = target.backend->to_host(tensor);
    lower = target.backend->to_host(b.lower);
    basis = target.backend->to_host(b.basis);
  }
  [[nodiscard]] double lower_at(Index t, Index i) const { return lower[static_cast<std::size_t>(t * rows + i)]; }
  [[nodiscard]] double x_at(Index t, Index j) const { return x[static_cast<std::size_t>(t * n + j)]; }
  [[nodiscard]] double basis_at(Index t, Index j) const { return basis[static_cast<std::size_t>(t * n + j)]; }
  [[nodiscard]] double length(Index t) const {
    double square = 0.0;
    for (Index j = 0; j < n; ++j) square += x_at(t, j) * x_at(t, j);
    return std::sqrt(square);
  }
  [[nodiscard]] bool is_dependent(Index t) const { return lower_at(t, t) == 0.0; }
};

/// Checks the contract of row_basis for finite rows. Rounding the basis to the dtype changes a product of two rows by
/// up to 2u. Sums of n terms in double add rounding errors, amplified if a row is nearly in the span of the others (by
/// up to 2²⁰ if the Cholesky factor is used). The terms of an entry of x have magnitudes that add up to less than √rows
/// times the length of its row. A dependent row loses its component outside the span.
void check_factors(const Target& target, const Factors& f) {
  const double u = unit_roundoff(target.dtype);
  const double sums = rounding_bound(static_cast<double>(f.n + f.rows), DType::f64) *
                      (target.dtype == DType::f64 ? 4.0 * std::sqrt(static_cast<double>(f.rows)) : 0x1p20);
  double orthonormal = 0.0;
  double whole = 0.0;
  for (Index t = 0; t < f.rows; ++t) {
    CHECK(f.lower_at(t, t) >= 0.0);
    for (Index i = t + 1; i < f.rows; ++i) REQUIRE(f.lower_at(t, i) == 0.0);
    for (Index s = 0; s <= t; ++s) {
      double product = 0.0;
      for (Index j = 0; j < f.n; ++j) product += f.basis_at(t, j) * f.basis_at(s, j);
      const double wanted = s == t && !f.is_dependent(t) ? 1.0 : 0.0;
      orthonormal = std::max(orthonormal, std::abs(product - wanted));
      if (f.is_dependent(s)) REQUIRE(f.lower_at(t, s) == 0.0);
    }
    double error = 0.0;
    for (Index j = 0; j < f.n; ++j) {
      double entry = 0.0;
      for (Index i = 0; i <= t; ++i) entry += f.lower_at(t, i) * f.basis_at(i, j);
      error += (entry - f.x_at(t, j)) * (entry - f.x_at(t, j));
    }
    if (f.length(t) > 0.0) whole = std::max(whole, std::sqrt(error) / f.length(t));
  }
  CAPTURE(target.name());
  CHECK(orthonormal <= 2.0 * u + u * u + sums);
  CHECK(whole <= dependence_tolerance(target.dtype) + 2.0 * std::sqrt(static_cast<double>(f.rows)) * u + sums);
}

int dependent_rows(const Factors& f) {
  int count = 0;
  for (Index t = 0; t < f.rows; ++t) count += f.is_dependent(t) ? 1 : 0;
  return count;
}

TEST_CASE("row_basis: `lower` times the basis equals x for any shape") {
  for (const Target& target : targets_and_truth()) {
    for (const Index rows : odd_sizes) {
      for (const Index n : {Index{1}, Index{33}, Index{300}}) {
        INFO("rows := ", rows, ", n := ", n);
        const Factors f(target, normal_twin(target, rows, n, 7).here);
        check_factors(target, f);
        CHECK(dependent_rows(f) == std::max<Index>(0, rows - n));
      }
    }
  }
}

TEST_CASE("row_basis: repeated and zero rows have zero rows in the basis, other rows are unaffected") {
  for (const Target& target : targets_and_truth()) {
    const Backend& ops = *target.backend;
    const Tensor independent = normal_twin(target, 40, 90, 8).here;
    std::vector<int> ids;
    for (int t = 0; t < 80; ++t) ids.push_back(t % 2 == 0 ? t / 2 : t / 4);  // rows 1, 3, 5 … repeat earlier rows
    const Tensor repeated = ops.gather(independent, ids);
    const Factors f(target, repeated);
    check_factors(target, f);
    CHECK(dependent_rows(f) == 40);
    const Factors whole(target, independent);
    for (Index t = 0; t < 80; ++t) {
      CAPTURE(t);
      CHECK(f.is_dependent(t) == (t % 2 == 1));
      if (t % 2 == 0) CHECK(f.lower_at(t, t) == approx(whole.lower_at(t / 2, t / 2)).epsilon(1e-5));
    }
    const Tensor zero = ops.constant(3, 90, target.dtype, 0.0);
    const Factors nothing(target, zero);
    check_factors(target, nothing);
    CHECK(dependent_rows(nothing) == 3);
  }
}

/// Returns the rows r and r + distance·|r|·e with a unit vector e orthogonal to r.
Tensor near_rows(const Target& target, double distance) {
  std::vector<double> values(2 * 64, 0.0);
  for (std::size_t j = 0; j < 32; ++j) values[j] = values[64 + j] = j % 2 == 0 ? 0.125 : -0.25;
  const double length = std::sqrt(32.0 * (0.125 * 0.125 + 0.25 * 0.25) / 2.0);
  values[64 + 50] = distance * length;
  return twin_of(target, 2, 64, values).here;
}

TEST_CASE("row_basis: nearly equal rows are independent above the dependence tolerance") {
  for (const Target& target : targets_and_truth()) {
    const double share = dependence_tolerance(target.dtype);
    for (const double distance : {0.5 * share, 0.9 * share, 1.1 * share, 2.0 * share, 1e-3, 0.1}) {
      CAPTURE(distance / share);
      const Factors f(target, near_rows(target, distance));
      check_factors(target, f);
      CHECK(f.is_dependent(1) == (distance < share));
    }
  }
}

TEST_CASE("row_basis: the basis stays orthonormal if a row nearly equals the previous row") {
  for (const Target& target : targets_and_truth()) {
    std::vector<double> values = truth().to_host(normal_twin(target, 45, 90, 10).truth);
    const double distance = 100.0 * dependence_tolerance(target.dtype);
    for (std::size_t j = 0; j < 90; ++j) values[44 * 90 + j] = values[43 * 90 + j] + distance * values[44 * 90 + j];
    const Factors f(target, twin_of(target, 45, 90, values).here);
    check_factors(target, f);
    CHECK(dependent_rows(f) == 0);
  }
}

TEST_CASE("row_basis: later rows do not affect earlier ones, and `lower` is the same without a basis") {
  for (const Target& target : targets_and_truth()) {
    const Backend& ops = *target.backend;
    const Tensor x = normal_twin(target, 70, 130, 9).here;
    std::vector<int> first(50);
    for (int t = 0; t < 50; ++t) first[static_cast<std::size_t>(t)] = t;
    const Factors all(target, x);
    const Factors some(target, ops.gather(x, first));
    const double allowed = rounding_bound_of_both(4.0 * 130.0, DType::f64) + 4.0 * unit_roundoff(target.dtype);
    for (Index t = 0; t < 50; ++t) {
      for (Index i = 0; i <= t; ++i) {
        REQUIRE(std::abs(all.lower_at(t, i) - some.lower_at(t, i)) <= allowed * all.length(t));
      }
    }
    check_same_bits("lower", ops.to_host(ops.row_basis(x, false).lower), all.lower);
    CHECK(ops.row_basis(x, false).basis.empty());
  }
}

TEST_CASE("row_basis accepts rows of any finite magnitude") {
  for (const Target& target : targets_and_truth()) {
    const double big = target.dtype == DType::f64 ? 0x1p1000 : 0x1p120;
    const double small = target.dtype == DType::f64 ? 0x1p-1040 : 0x1p-130;
    const Factors plain(target, twin_of(target, 3, 3, std::vector<double>{1, 2, 3, 3, 1, 2, 5, 1, 1}).here);
    const Factors far(
        target,
        twin_of(target, 3, 3, std::vector<double>{big, 2 * big, 3 * big, 3 * small, small, 2 * small, 5, 1, 1}).here);
    const std::vector<double> sizes{big, small, 1.0};
    for (Index t = 0; t < 3; ++t) {
      const double size = sizes[static_cast<std::size_t>(t)];
      for (Index i = 0; i <= t; ++i) {
        // The tolerance is large because subnormal numbers have fewer digits.
        CHECK(far.lower_at(t, i) / size == approx(plain.lower_at(t, i)).epsilon(1e-4));
      }
    }
    check_close("basis", far.basis, plain.basis, 16.0 * unit_roundoff(target.dtype));
  }
}

TEST_CASE("row_basis: a non-finite row affects only its own row of `lower`") {
  for (const Target& target : targets_and_truth()) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      const Factors f(target, twin_of(target, 3, 3, std::vector<double>{3, 4, 0, 1, bad, 1, 6, 8, 2}).here);
      for (Index i = 0; i <= 1; ++i) CHECK(std::isnan(f.lower_at(1, i)));
      const double allowed = rounding_bound_of_both(8.0, target.dtype) * 10.0;
      check_close("row 0", std::vector<double>(f.lower.begin(), f.lower.begin() + 3),
                  std::vector<double>{5.0, 0.0, 0.0}, allowed);
      check_close("row 2", std::vector<double>(f.lower.begin() + 6, f.lower.end()), std::vector<double>{10.0, 0.0, 2.0},
                  allowed);
      check_close("basis", f.basis, std::vector<double>{0.6, 0.8, 0, 0, 0, 0, 0, 0, 1}, allowed);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
