#include "experiments/engine/judge/depth_fit.h"

#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

/// 25 depths with errors of a percent, of a fixed pattern without a trend.
std::vector<double> sampled(const std::function<double(double)>& law) {
  std::vector<double> values;
  for (int d = 0; d < 25; ++d) values.push_back(law(d) * std::exp(0.01 * std::sin(2.4 * d * d)));
  return values;
}

/// The law that values decide for, in words.
std::string best(const std::function<double(double)>& law) {
  return judge::likely_laws_in_words(judge::fit_growth(sampled(law)));
}

TEST_CASE("each law is the best for its own values") {
  CHECK(best([](double d) { return 1.0 + 0.7 * d; }) == "linear");
  CHECK(best([](double d) { return 1.0 + 0.7 * d + 0.2 * d * d; }) == "quadratic");
  CHECK(best([](double d) { return 0.4 * std::exp(0.3 * d); }) == "exponential");
  // A base of 1.05 over 23 depths is bent so little that only the criterion's count of parameters tells it.
  CHECK(best([](double d) { return std::exp(0.05 * d); }) == "exponential");
}

TEST_CASE("the embedding and the first sublayer do not count") {
  std::vector<double> values = sampled([](double d) { return 1.0 + 0.7 * d; });
  const auto fit = judge::fit_growth(values);
  values[0] = 1e-4;
  values[1] = 50.0;
  const auto other = judge::fit_growth(values);
  for (std::size_t law = 0; law < 3; ++law) CHECK(other.laws[law].criterion == fit.laws[law].criterion);
  values[2] *= 1.5;
  CHECK(judge::fit_growth(values).laws[0].rms_residual > fit.laws[0].rms_residual);
}

TEST_CASE("the laws' parameters are found, of depths as they are counted") {
  const auto fits = judge::fit_growth(sampled([](double d) { return 2.0 + 0.5 * d + 0.1 * d * d; })).laws;
  CHECK(fits[1].parameters[0] == doctest::Approx(2.0).epsilon(0.05));
  CHECK(fits[1].parameters[1] == doctest::Approx(0.5).epsilon(0.05));
  CHECK(fits[1].parameters[2] == doctest::Approx(0.1).epsilon(0.02));
  CHECK(fits[1].rms_residual == doctest::Approx(0.007).epsilon(0.3));
  const auto exponential = judge::fit_growth(sampled([](double d) { return 3.0 * std::exp(0.25 * d); })).laws;
  CHECK(exponential[2].parameters[0] == doctest::Approx(3.0).epsilon(0.01));
  CHECK(exponential[2].parameters[1] == doctest::Approx(0.25).epsilon(0.01));
}

TEST_CASE("a law describes values to 10 % of their logarithm, or none does") {
  // A line whose values are alternately above and below by a factor e^±x: the root mean square is x.
  const auto line = [](double apart) {
    return [apart](double d) { return (5.0 + d) * std::exp(std::fmod(d, 2.0) == 0.0 ? apart : -apart); };
  };
  const auto values = [](const std::function<double(double)>& law) {
    std::vector<double> all;
    for (int d = 0; d < 26; ++d) all.push_back(law(d));
    return all;
  };
  CHECK(judge::likely_laws_in_words(judge::fit_growth(values(line(0.09)))) == "linear");
  CHECK(judge::likely_laws_in_words(judge::fit_growth(values(line(0.11)))) == judge::no_growth_law);
  // A step is no law's.
  CHECK(judge::likely_laws(judge::fit_growth(values([](double d) { return d < 12.0 ? 1.0 : 9.0; }))).empty());
}

/// ln(value) less what a law says there, from depth 2 on.
std::vector<double> residuals(const std::vector<double>& values, const std::function<double(double)>& law) {
  std::vector<double> left;
  for (std::size_t d = 2; d < values.size(); ++d) left.push_back(std::log(values[d] / law(static_cast<double>(d))));
  return left;
}

/// The autocorrelation at lag one, trace over trace, expected of what fits leave over of errors whose autocorrelation
/// is rho: every pair of errors, with the derivatives' share in both taken away.
double left_over(std::vector<std::vector<double>> derivatives, double rho) {
  const std::size_t n = derivatives.front().size();
  const auto product = [&](const auto& x, const auto& y) {
    double sum = 0.0;
    for (std::size_t i = 0; i < n; ++i) sum += x[i] * y[i];
    return sum;
  };
  for (std::size_t k = 0; k < derivatives.size(); ++k) {  // Gram and Schmidt
    auto& one = derivatives[k];
    for (std::size_t before = 0; before < k; ++before) {
      const double share = product(one, derivatives[before]);
      for (std::size_t i = 0; i < n; ++i) one[i] -= share * derivatives[before][i];
    }
    const double length = std::sqrt(product(one, one));
    for (double& x : one) x /= length;
  }
  const auto left = [&](std::size_t i, std::size_t j) {
    double entry = i == j ? 1.0 : 0.0;
    for (const auto& one : derivatives) entry -= one[i] * one[j];
    return entry;
  };
  double neighbours = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double together = std::pow(rho, std::abs(static_cast<double>(i) - static_cast<double>(j)));
      for (std::size_t t = 0; t < n; ++t) {
        squares += left(t, i) * together * left(t, j);
        if (t > 0) neighbours += left(t, i) * together * left(t - 1, j);
      }
    }
  }
  return neighbours / squares;
}

TEST_CASE("the criterion is QAICc: a likelihood of as many points as autocorrelated errors are worth") {
  std::vector<double> values;
  for (int d = 0; d < 25; ++d)
    values.push_back((2.0 + 0.5 * d + 0.1 * d * d) * std::exp(0.02 * std::sin(0.9 * d) + 0.01 * std::sin(2.1 * d)));
  const auto fit = judge::fit_growth(values);
  const std::vector<double>& p = fit.laws[1].parameters;
  const auto law_at = [&](double d) { return p[0] + p[1] * d + p[2] * d * d; };
  const std::vector<double> left = residuals(values, law_at);
  std::vector<std::vector<double>> derivatives(3);
  for (int d = 2; d < 25; ++d) {
    for (std::size_t k = 0; k < 3; ++k) derivatives[k].push_back(std::pow(d, k) / law_at(d));
  }
  double square = 0.0, product = 0.0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    square += left[i] * left[i];
    if (i > 0) product += left[i] * left[i - 1];
  }
  constexpr double n = 23.0;
  const double rho = (n - fit.effective_points) / (n + fit.effective_points);
  REQUIRE(product / square > 0.2);  // cos 0.9 = 0.62 of four fifths, cos 2.1 = -0.50 of the rest, less what is fitted
  CHECK(rho > product / square + 0.1);
  CHECK(left_over(derivatives, rho) == doctest::Approx(product / square).epsilon(1e-6));
  CHECK(fit.laws[1].rms_residual == doctest::Approx(std::sqrt(square / n)).epsilon(1e-9));
  for (std::size_t law = 0; law < 3; ++law) {
    const double k = law == 1 ? 4.0 : 3.0;  // coefficients, and the spread
    const double rms = fit.laws[law].rms_residual;
    const double expected = 2.0 * fit.effective_points * std::log(rms) + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0);
    CHECK(fit.laws[law].criterion == doctest::Approx(expected).epsilon(1e-12));
    CHECK(fit.laws[law].residual_deviation == doctest::Approx(rms * std::sqrt(n / (n - k + 1.0))).epsilon(1e-12));
  }
}

TEST_CASE("residuals that alternate are worth no more than their number") {
  std::vector<double> values;
  for (int d = 0; d < 25; ++d) values.push_back((1.0 + d) * (d % 2 == 0 ? 1.02 : 0.98));
  CHECK(judge::fit_growth(values).effective_points == 23.0);
}

/// What is named of values whose logarithm has stationary errors of 2 % about a line that grows 2.5-fold.
struct Named {
  int right = 0, wrong = 0, undecided = 0;
  double mean_points = 0.0;
};

Named named_of_lines(double alike, int draws) {
  std::mt19937 generator(3);
  std::normal_distribution<double> normal;
  Named named;
  for (int i = 0; i < draws; ++i) {
    std::vector<double> values;
    double error = normal(generator);
    for (int d = 0; d < 25; ++d) {
      values.push_back((1.0 + 1.5 * (d - 2) / 22.0) * std::exp(0.02 * error));
      error = alike * error + std::sqrt(1.0 - alike * alike) * normal(generator);
    }
    const auto fit = judge::fit_growth(values);
    const auto laws = judge::likely_laws(fit);
    if (laws.size() != 1) {
      ++named.undecided;
    } else {
      ++(laws.front() == judge::GrowthLaw::linear ? named.right : named.wrong);
    }
    named.mean_points += fit.effective_points / draws;
  }
  return named;
}

TEST_CASE("of a line with autocorrelated errors another law is named rarely, and none where the depths do not decide") {
  constexpr int draws = 400;
  struct Row {
    double alike, wrong, undecided, points;
  };
  // The residuals' own autocorrelation, at which the lowest criterion names the law, gives 0.10, 0.24 and 0.35 wrong
  // names and 22.1, 15.1 and 10.5 points. An autocorrelation estimated from 23 residuals scatters: 23, 7.7 and 2.6 are
  // right.
  for (const Row& row : {Row{0.0, 0.04, 0.33, 20.0}, {0.5, 0.10, 0.34, 9.3}, {0.8, 0.10, 0.59, 4.6}}) {
    INFO(row.alike);
    const Named named = named_of_lines(row.alike, draws);
    // Within 4 standard deviations of 400 draws.
    CHECK(std::abs(named.wrong / double{draws} - row.wrong) < 0.06);
    CHECK(std::abs(named.undecided / double{draws} - row.undecided) < 0.1);
    CHECK(named.mean_points == doctest::Approx(row.points).epsilon(0.1));
    CHECK(named.right + named.wrong + named.undecided == draws);
  }
}

TEST_CASE("laws within 2 of each other are named together") {
  const auto fit_of = [](std::array<double, 3> criteria, std::array<double, 3> misfits) {
    judge::GrowthFit fit{};
    for (std::size_t law = 0; law < 3; ++law)
      fit.laws[law] = {.parameters = {},
                       .rms_residual = misfits[law],
                       .residual_deviation = misfits[law],
                       .criterion = criteria[law]};
    return judge::likely_laws_in_words(fit);
  };
  CHECK(fit_of({-20.0, -17.9, -17.9}, {0.05, 0.05, 0.05}) == "linear");
  CHECK(fit_of({-20.0, -18.1, -17.9}, {0.05, 0.05, 0.05}) == "not decided between linear and quadratic");
  CHECK(fit_of({-20.0, -20.5, -19.9}, {0.05, 0.05, 0.05}) == "not decided between linear, quadratic and exponential");
  CHECK(fit_of({-18.1, -25.0, -23.1}, {0.05, 0.15, 0.15}) == judge::no_growth_law);
  CHECK(fit_of({-24.0, -25.0, -18.1}, {0.05, 0.15, 0.15}) == "not decided between linear and quadratic");
}

TEST_CASE("what cannot be fitted has no numbers, and no law") {
  for (const std::vector<double>& values :
       {std::vector<double>{}, {1}, {1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 0, 5, 6, 7, 8}, {1, 2, 3, NAN, 5, 6, 7, 8}}) {
    const auto fit = judge::fit_growth(values);
    for (const auto& law : fit.laws) CHECK(std::isnan(law.criterion));
    CHECK(std::isnan(fit.effective_points));
    CHECK(judge::likely_laws(fit).empty());
  }
  // What is not fitted need not be positive.
  CHECK(judge::likely_laws_in_words(judge::fit_growth({0, NAN, 3, 4.1, 4.9, 6.1, 6.9, 8.1})) == "linear");
}

}  // namespace
}  // namespace periscope::testing
