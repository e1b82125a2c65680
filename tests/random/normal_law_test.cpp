#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/poisson.hpp>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>
#include <cmath>
#include <complex>
#include <functional>
#include <numbers>
#include <vector>

#include "sim/random/normal.h"
#include "sim/random/philox.h"
#include "sim/random/unit_normal.h"
#include "tests/support/doctest.h"
#include "tests/support/significance.h"

/// Tests of the distribution of a stream and of its independence from neighboring streams. Each rejects a correct
/// generator with probability below `false_alarm`, and is shown to reject a broken one.
namespace periscope {
namespace {

constexpr double false_alarm = 1e-6;
constexpr StreamKey some_key{.seed = 1, .layer = 2, .stream = Stream{3}};

using Generator = std::function<std::vector<double>(StreamKey key, std::size_t count)>;

std::vector<double> ours(StreamKey stream, std::size_t count) {
  std::vector<double> x(count);
  fill_normal<double>(stream, 0, 1.0, x);
  return x;
}

/// Boost's generator: a second correct generator, which the tests must accept.
std::vector<double> boosts(StreamKey stream, std::size_t count) {
  boost::random::mt19937_64 engine(stream.seed + 1000 * stream.layer +
                                   1'000'000 * static_cast<std::uint64_t>(stream.stream));
  boost::random::normal_distribution<double> normal;
  std::vector<double> x(count);
  for (double& v : x) v = normal(engine);
  return x;
}

/// Our generator with a faulty table for mapping words to numbers.
template <class Table>
std::vector<double> mapped_by(StreamKey stream, std::size_t count) {
  std::vector<std::uint32_t> words((count + 3) / 4 * 4);
  philox_words(stream, 0, words);
  std::vector<double> x(count);
  std::transform(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count), x.begin(),
                 [](std::uint32_t word) { return static_cast<double>(unit_normal<Table>(word)); });
  return x;
}

struct WrongLeadingCoefficient : UnitNormalTable {
  static constexpr float at_zero = 1.29F;  // 3 % too large
};
struct WrongTailCoefficient : UnitNormalTable {
  static constexpr std::array factor = [] {
    auto c = UnitNormalTable::factor;
    c[1] *= 2.0F;
    return c;
  }();
};

/// Returns the bounds of `count` equally probable cells of the normal distribution.
std::vector<double> cells(int count) {
  const boost::math::normal normal;
  std::vector<double> bounds;
  for (int i = 1; i < count; ++i) bounds.push_back(quantile(normal, static_cast<double>(i) / count));
  return bounds;
}

/// χ² of the counts of `x` in equally probable cells, divided by its critical value.
double chi_square(const std::vector<double>& x) {
  constexpr int count = 1024;
  static const std::vector<double> bounds = cells(count);
  std::vector<double> seen(count, 0.0);
  for (const double v : x) seen[static_cast<std::size_t>(std::ranges::upper_bound(bounds, v) - bounds.begin())] += 1.0;
  const double expected = static_cast<double>(x.size()) / count;
  double sum = 0.0;
  for (const double s : seen) sum += (s - expected) * (s - expected) / expected;
  return sum / quantile(complement(boost::math::chi_squared(count - 1), false_alarm));
}

double kolmogorov(const std::vector<double>& x) {
  const boost::math::normal normal;
  return testing::kolmogorov_distance(x, [&](double v) { return cdf(normal, v); }) /
         testing::kolmogorov_limit(x.size(), false_alarm);
}

/// Largest deviation of the first four moments in standard errors, divided by its critical value.
double moments(const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  double m[5] = {};
  for (const double v : x)
    for (int p = 1; p <= 4; ++p) m[p] += std::pow(v, p) / n;
  // Var x^p = E x^2p − (E x^p)²: 1, 2, 15, 96.
  const double z = std::max({std::abs(m[1]) / std::sqrt(1 / n), std::abs(m[2] - 1) / std::sqrt(2 / n),
                             std::abs(m[3]) / std::sqrt(15 / n), std::abs(m[4] - 3) / std::sqrt(96 / n)});
  return z / quantile(complement(boost::math::normal(), false_alarm / 8));
}

/// Smallest tail probability of the counts beyond 3, 3½, … 5 standard deviations, divided by the significance
/// level; values below 1 reject.
double tails(const std::vector<double>& x) {
  double least = 1.0;
  for (const double sigma : {3.0, 3.5, 4.0, 4.5, 5.0}) {
    const auto seen = static_cast<double>(std::ranges::count_if(x, [=](double v) { return std::abs(v) > sigma; }));
    const boost::math::poisson expected(static_cast<double>(x.size()) * std::erfc(sigma / std::numbers::sqrt2));
    least = std::min({least, cdf(expected, seen), seen > 0 ? cdf(complement(expected, seen - 1)) : 1.0});
  }
  return least / (false_alarm / 10);
}

TEST_CASE("a million numbers pass tests of moments, Kolmogorov-Smirnov distance, chi-square and tails" *
          doctest::test_suite("slow")) {
  for (const Generator& right : {Generator(ours), Generator(boosts)}) {
    const std::vector<double> x = right(some_key, 1'000'000);
    CHECK(moments(x) < 1.0);
    CHECK(kolmogorov(x) < 1.0);
    CHECK(chi_square(x) < 1.0);
    CHECK(tails(right(some_key, 2'000'000)) > 1.0);
  }
}

TEST_CASE("wrong coefficients are detected by the distribution tests" * doctest::test_suite("slow")) {
  const std::vector<double> leading = mapped_by<WrongLeadingCoefficient>(some_key, 1'000'000);
  CHECK(kolmogorov(leading) > 1.0);
  CHECK(moments(leading) > 1.0);
  const std::vector<double> tail = mapped_by<WrongTailCoefficient>(some_key, 2'000'000);
  CHECK(tails(tail) < 1.0);
  CHECK(chi_square(tail) > 1.0);
}

/// Correlation of two streams in standard errors, divided by its critical value.
double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const std::size_t n = std::min(x.size(), y.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return std::abs(sum) / std::sqrt(n) / quantile(complement(boost::math::normal(), false_alarm / 2));
}

/// Correlation of squares, divided by its critical value; detects dependent magnitudes.
double square_correlation(std::vector<double> x, std::vector<double> y) {
  for (double& v : x) v = (v * v - 1.0) / std::numbers::sqrt2;
  for (double& v : y) v = (v * v - 1.0) / std::numbers::sqrt2;
  return correlation(x, y);
}

/// Fast Fourier transform in place. x.size() is a power of two.
void fourier_transform(std::vector<std::complex<double>>& x) {
  const std::size_t n = x.size();
  if (n == 1) return;
  std::vector<std::complex<double>> even(n / 2), odd(n / 2);
  for (std::size_t i = 0; i < n; ++i) (i % 2 == 0 ? even : odd)[i / 2] = x[i];
  fourier_transform(even);
  fourier_transform(odd);
  for (std::size_t k = 0; k < n / 2; ++k) {
    const std::complex<double> t =
        std::polar(1.0, -2.0 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n)) * odd[k];
    x[k] = even[k] + t;
    x[k + n / 2] = even[k] - t;
  }
}

/// Largest ordinate of the two-dimensional periodogram of a table, divided by its critical value. Row r is the r-th
/// neighboring stream; rows and columns are powers of two. Ordinates of white noise are exponential with mean 1, and χ²
/// with one degree of freedom at the four frequencies that equal their own negative.
double spectrum(const Generator& generate, const std::function<StreamKey(std::uint32_t)>& key_of, std::size_t rows,
                std::size_t columns) {
  std::vector<std::vector<std::complex<double>>> table(columns, std::vector<std::complex<double>>(rows));
  for (std::size_t r = 0; r < rows; ++r) {
    const std::vector<double> x = generate(key_of(static_cast<std::uint32_t>(r)), columns);
    std::vector<std::complex<double>> row(x.begin(), x.end());
    fourier_transform(row);
    for (std::size_t c = 0; c < columns; ++c) table[c][r] = row[c];
  }
  double largest = 0.0;
  for (auto& column : table) {
    fourier_transform(column);
    for (const std::complex<double> v : column) largest = std::max(largest, std::norm(v));
  }
  const auto n = static_cast<double>(rows * columns);
  const double of_pairs = std::log(n / false_alarm);
  const double of_four = quantile(complement(boost::math::chi_squared(1), false_alarm / 8));
  return largest / n / std::max(of_pairs, of_four);
}

StreamKey next_seed(std::uint32_t i) { return {1 + i, 2, Stream{3}}; }
StreamKey next_layer(std::uint32_t i) { return {1, 2 + i, Stream{3}}; }
StreamKey next_stream(std::uint32_t i) { return {1, 2, Stream{3 + i}}; }

TEST_CASE("neighboring numbers, seeds, layers and streams are uncorrelated, and so are their squares") {
  constexpr std::size_t n = 200'000;
  const std::vector<double> x = ours(some_key, n);
  for (const auto& neighbour : {next_seed, next_layer, next_stream}) {
    for (const std::uint32_t distance : {1U, 2U, 7U, 1024U}) {
      const std::vector<double> y = ours(neighbour(distance), n);
      CHECK(correlation(x, y) < 1.0);
      CHECK(square_correlation(x, y) < 1.0);
    }
  }
  for (const std::ptrdiff_t lag : {1, 2, 3, 4, 8, 16, 64, 256, 1024}) {
    CHECK(correlation(x, {x.begin() + lag, x.end()}) < 1.0);
    CHECK(square_correlation(x, {x.begin() + lag, x.end()}) < 1.0);
  }
}

TEST_CASE("tables over neighboring seeds, layers and streams are white noise") {
  for (const auto& neighbour : {next_seed, next_layer, next_stream}) {
    CHECK(spectrum(ours, neighbour, 512, 256) < 1.0);
    CHECK(spectrum(ours, neighbour, 4096, 16) < 1.0);
  }
  CHECK(spectrum(boosts, next_seed, 512, 256) < 1.0);
}

TEST_CASE("shared counters, overlapping counters and repeated words are detected") {
  const Generator no_layer = [](StreamKey k, std::size_t n) { return ours({k.seed, 0, k.stream}, n); };
  CHECK(correlation(no_layer(some_key, 10'000), no_layer(next_layer(1), 10'000)) > 1.0);
  CHECK(spectrum(no_layer, next_layer, 512, 256) > 1.0);
  // Layer l starts at the l-th number of one stream.
  const Generator overlapping = [](StreamKey k, std::size_t n) {
    std::vector<double> x(n);
    fill_normal<double>({k.seed, 0, k.stream}, k.layer, 1.0, x);
    return x;
  };
  CHECK(spectrum(overlapping, next_layer, 512, 256) > 1.0);
  // Every word is used twice, as if a generator of pairs did not advance.
  const std::vector<double> x = ours(some_key, 20'000);
  std::vector<double> twice;
  for (const double v : x) twice.insert(twice.end(), {v, v});
  CHECK(correlation(twice, {twice.begin() + 1, twice.end()}) > 1.0);
}

}  // namespace
}  // namespace periscope
