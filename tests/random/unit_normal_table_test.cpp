#include <boost/math/constants/constants.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <functional>
#include <vector>

#include "sim/random/unit_normal.h"
#include "tests/support/doctest.h"

/// Derives the coefficients of UnitNormalTable: least-squares polynomials over Chebyshev nodes (near minimax) in 50
/// digits. Coefficients are rounded to binary32 one at a time, and the remaining ones are refitted after each.
namespace periscope {
namespace {

using Real = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<50>, boost::multiprecision::et_off>;
using Vector = std::vector<Real>;

/// One value per node: y ≈ Σ_k c_k t^k, errors weighted by w.
struct Points {
  Vector t, y, w;
};

Vector chebyshev_nodes(const Real& a, const Real& b, int count) {
  Vector nodes;
  for (int k = 0; k < count; ++k) {
    nodes.push_back((a + b) / 2 + (b - a) / 2 * cos((2 * k + 1) * boost::math::constants::pi<Real>() / (2 * count)));
  }
  return nodes;
}

/// Solves A c = b by elimination without pivoting; A is symmetric positive definite. [n, n], [n] → [n]
Vector solved(std::vector<Vector> a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = k + 1; i < n; ++i) {
      const Real factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

/// The coefficients of t^first … t^last.
Vector least_squares(const Points& p, int first, int last) {
  const auto n = static_cast<std::size_t>(last - first + 1);
  std::vector<Vector> a(n, Vector(n, Real(0)));
  Vector b(n, Real(0));
  for (std::size_t m = 0; m < p.t.size(); ++m) {
    Vector row{p.w[m] * pow(p.t[m], first)};
    while (row.size() < n) row.push_back(row.back() * p.t[m]);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) a[i][j] += row[i] * row[j];
      b[i] += row[i] * p.w[m] * p.y[m];
    }
  }
  return solved(std::move(a), std::move(b));
}

std::vector<float> rounded_fit(Points p, int first, int last) {
  std::vector<float> coefficients;
  for (int k = first; k <= last; ++k) {
    const auto c = static_cast<float>(least_squares(p, k, last).front());
    coefficients.push_back(c);
    for (std::size_t m = 0; m < p.t.size(); ++m) p.y[m] -= c * pow(p.t[m], k);
  }
  return coefficients;
}

double largest_error(const Points& p, int first, const std::vector<float>& c) {
  Real largest = 0;
  for (std::size_t m = 0; m < p.t.size(); ++m) {
    Real sum = 0;
    for (std::size_t k = 0; k < c.size(); ++k) sum += c[k] * pow(p.t[m], first + static_cast<int>(k));
    const Real error = abs(p.w[m] * (p.y[m] - sum));
    if (error > largest) largest = error;
  }
  return static_cast<double>(largest);
}

template <std::size_t n>
void check_same(const std::vector<float>& derived, const std::array<float, n>& table) {
  REQUIRE(derived.size() == n);
  for (std::size_t k = 0; k < n; ++k) {
    CAPTURE(k);
    CHECK(derived[k] == table[k]);
  }
}

TEST_CASE("UnitNormalTable: coefficients of log2(1 + r) equal the fit") {
  const auto points = [](int count) {
    Points p;
    p.t = chebyshev_nodes(sqrt(Real(0.5)) - 1, sqrt(Real(2)) - 1, count);
    for (const Real& r : p.t) p.y.push_back(log(1 + r) / log(Real(2)));
    p.w.assign(p.t.size(), Real(1));
    return p;
  };
  const std::vector<float> fit = rounded_fit(points(40), 1, 8);
  check_same(fit, UnitNormalTable::logarithm);
  CHECK(largest_error(points(301), 1, fit) < 5.4e-8);
}

TEST_CASE("UnitNormalTable: coefficients of f(w) equal the fit") {
  const Real at_zero = sqrt(boost::math::constants::pi<Real>() / 2);
  CHECK(static_cast<float>(at_zero) == UnitNormalTable::at_zero);
  const Real shift = UnitNormalTable::shift;
  const Real first = sqrt(shift);
  const Real last = sqrt(31 + shift);
  const auto centre = static_cast<float>((first + last) / 2);
  CHECK(centre == UnitNormalTable::centre);
  // y = (f(w) − f(0))/w, weighted so that errors are relative to f.
  const auto points = [&](int count) {
    Points p;
    for (const Real& s : chebyshev_nodes(first, last, count)) {
      const Real w = s * s - shift;
      const Real v = pow(Real(2), -w);
      const Real x = sqrt(1 - v);
      const Real f = sqrt(Real(2)) * boost::math::erfc_inv(Real(v / (1 + x))) / x;
      p.t.push_back(s - centre);
      p.y.push_back((f - at_zero) / w);
      p.w.push_back(w / f);
    }
    return p;
  };
  const std::vector<float> fit = rounded_fit(points(50), 0, 16);
  check_same(fit, UnitNormalTable::factor);
  CHECK(largest_error(points(151), 0, fit) < 1.3e-8);
}

}  // namespace
}  // namespace periscope
