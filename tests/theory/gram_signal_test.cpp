#include "theory/width/gram_signal.h"

#include "tests/support/doctest.h"

#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>

#include <cmath>
#include <vector>

#include "tests/support/significance.h"

namespace periscope::theory {
namespace {

Matrix some(Eigen::Index rows, Eigen::Index cols, std::uint64_t place) {
  NormalStream stream({.seed = 5, .replicate = 6, .place = place});
  return stream.normals(rows, cols);
}

double distance(const Matrix& a, const Matrix& b) { return (a - b).cwiseAbs().maxCoeff(); }

TEST_CASE("NormalStream returns independent normal numbers, the same for blocks of any size") {
  const Matrix z = some(1000, 200, 0);
  const std::vector<double> values(z.data(), z.data() + z.size());
  const boost::math::normal law;
  CHECK(testing::kolmogorov_distance(values, [&](double x) { return boost::math::cdf(law, x); }) <
        testing::kolmogorov_limit(values.size(), 1e-6));
  for (const int power : {1, 2, 3, 4}) {
    std::vector<double> powers;
    for (const double v : values) powers.push_back(std::pow(v, power));
    const double expected = power == 2 ? 1.0 : power == 4 ? 3.0 : 0.0;
    testing::check_consistent("moment", testing::estimate(powers), expected);
  }
  for (const std::size_t lag : {1UL, 2UL, 256UL, 512UL}) {  // lag 256: cosine and sine of the same angle
    std::vector<double> products;
    for (std::size_t i = 0; i + lag < values.size(); ++i) products.push_back(values[i] * values[i + lag]);
    testing::check_consistent("lag", testing::estimate(products), 0.0);
    for (std::size_t i = 0; i + lag < values.size(); ++i) {
      products[i] = (values[i] * values[i] - 1) * (values[i + lag] * values[i + lag] - 1);
    }
    testing::check_consistent("squares at lag", testing::estimate(products), 0.0);
  }
  CHECK(distance(some(3, 5, 0), some(1000, 1, 0).topRows(15).reshaped(3, 5)) == 0.0);
  CHECK(distance(some(3, 5, 0), some(3, 5, 1)) > 0.1);
}

TEST_CASE("the diagonal of A Aᵀ of Wishart factors is chi-squared, even if A Aᵀ is singular") {
  for (const Eigen::Index degrees : {0, 1, 3, 4, 9}) {
    constexpr Eigen::Index size = 4;
    std::vector<std::vector<double>> diagonal(size);
    std::vector<double> off;
    for (std::uint64_t i = 0; i < 20000; ++i) {
      NormalStream stream({.seed = 1, .replicate = i, .place = static_cast<std::uint64_t>(degrees)});
      const Matrix a = stream.wishart_factor(size, degrees);
      const Matrix w = a * a.transpose();
      for (std::size_t k = 0; k < size; ++k) diagonal[k].push_back(w(k, k));
      off.push_back(w(0, 2) * w(0, 2));
    }
    if (degrees == 0) {
      CHECK(testing::estimate(diagonal[3]).mean == 0.0);
      continue;
    }
    const boost::math::chi_squared law(static_cast<double>(degrees));
    for (const std::vector<double>& values : diagonal) {
      CHECK(testing::kolmogorov_distance(values, [&](double x) { return boost::math::cdf(law, x); }) <
            testing::kolmogorov_limit(values.size(), 1e-6));
    }
    testing::check_consistent("off the diagonal", testing::estimate(off), static_cast<double>(degrees));
  }
}

TEST_CASE("square roots preserve the Gram matrix and equal rows, for any rank and scale") {
  for (const int rank : {1, 3, 7}) {
    Matrix x = some(7, rank, 3) * some(rank, 20, 4);
    x.row(2) = x.row(5);
    x.row(4) *= 1e-30;
    x.row(6).setZero();
    const Vector length = x.rowwise().norm();
    const Vector inverse = length.unaryExpr([](double n) { return n > 0 ? 1.0 / n : 0.0; });
    const auto scaled = [&](const Matrix& m) { return Matrix(inverse.asDiagonal() * m); };
    const Matrix gram = scaled(x) * scaled(x).transpose();
    const Matrix root = square_root(x);
    CHECK(root.cols() == 7);
    CHECK(distance(scaled(root) * scaled(root).transpose(), gram) < 1e-14);
    CHECK((root.row(2) - root.row(5)).norm() < 1e-14 * root.row(2).norm());
    CHECK(root.row(6).norm() == 0.0);
    const Matrix of_gram = root_of_gram(x * x.transpose());
    CHECK(distance(scaled(of_gram) * scaled(of_gram).transpose(), gram) < 1e-13);
    CHECK((of_gram.row(2) - of_gram.row(5)).norm() < 1e-13 * of_gram.row(2).norm());
    CHECK(of_gram.row(6).norm() == 0.0);
  }
  const Matrix few = some(5, 3, 0);
  CHECK(distance(square_root(few), few) == 0.0);
}

}  // namespace
}  // namespace periscope::theory
