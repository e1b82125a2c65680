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

/// Values of a law at 25 depths with deterministic errors of 1 % and no trend.
std::vector<double> sampled(const std::function<double(double)>& law) {
  std::vector<double> values;
  for (int d = 0; d < 25; ++d) values.push_back(law(d) * std::exp(0.01 * std::sin(2.4 * d * d)));
  return values;
}

/// Returns the name of the law chosen for values of `law`.
std::string best(const std::function<double(double)>& law) {
  return judge::likely_laws_in_words(judge::fit_growth(sampled(law)));
}

TEST_CASE("each growth law wins the fit to values of that law") {
  CHECK(best([](double d) { return 1.0 + 0.7 * d; }) == "linear");
  CHECK(best([](double d) { return 1.0 + 0.7 * d + 0.2 * d * d; }) == "quadratic");
  CHECK(best([](double d) { return 0.4 * std::exp(0.3 * d); }) == "exponential");
  // A base of 1.05 over 23 depths curves so little that only the penalty on parameters selects it.
  CHECK(best([](double d) { return std::exp(0.05 * d); }) == "exponential");
}

TEST_CASE("the fit ignores the embedding and the first sublayer") {
  std::vector<double> values = sampled([](double d) { return 1.0 + 0.7 * d; });
  const auto fit = judge::fit_growth(values);
  values[0] = 1e-4;
  values[1] = 50.0;
  const auto other = judge::fit_growth(values);
  for (std::size_t law = 0; law < 3; ++law) CHECK(other.laws[law].criterion == fit.laws[law].criterion);
  values[2] *= 1.5;
  CHECK(judge::fit_growth(values).laws[0].rms_residual > fit.laws[0].rms_residual);
}

TEST_CASE("fitted parameters equal the parameters of the law, with depths counted from 0") {
  const auto fits = judge::fit_growth(sampled([](double d) { return 2.0 + 0.5 * d + 0.1 * d * d; })).laws;
  CHECK(fits[1].parameters[0] == approx(2.0).epsilon(0.05));
  CHECK(fits[1].parameters[1] == approx(0.5).epsilon(0.05));
  CHECK(fits[1].parameters[2] == approx(0.1).epsilon(0.02));
  CHECK(fits[1].rms_residual == approx(0.007).epsilon(0.3));
  const auto exponential = judge::fit_growth(sampled([](double d) { return 3.0 * std::exp(0.25 * d); })).laws;
  CHECK(exponential[2].parameters[0] == approx(3.0).epsilon(0.01));
  CHECK(exponential[2].parameters[1] == approx(0.25).epsilon(0.01));
}

TEST_CASE("a law is accepted up to an RMS residual of 0.1 in the logarithm") {
  // A line multiplied by e^x and e^−x at alternate depths has the RMS residual x.
  const auto line = [](double shift) {
    return [shift](double d) { return (5.0 + d) * std::exp(std::fmod(d, 2.0) == 0.0 ? shift : -shift); };
  };
  const auto values = [](const std::function<double(double)>& law) {
    std::vector<double> all;
    for (int d = 0; d < 26; ++d) all.push_back(law(d));
    return all;
  };
  CHECK(judge::likely_laws_in_words(judge::fit_growth(values(line(0.09)))) == "linear");
  CHECK(judge::likely_laws_in_words(judge::fit_growth(values(line(0.11)))) == judge::no_growth_law);
  // A step function matches no law.
  CHECK(judge::likely_laws(judge::fit_growth(values([](double d) { return d < 12.0 ? 1.0 : 9.0; }))).empty());
}

TEST_CASE("alternating residuals do not raise the effective number of points above 23") {
  std::vector<double> values;
  for (int d = 0; d < 25; ++d) values.push_back((1.0 + d) * (d % 2 == 0 ? 1.02 : 0.98));
  CHECK(judge::fit_growth(values).effective_points == 23.0);
}

/// Counts of outcomes for a line that grows 2.5-fold, with stationary errors of 2 % in the logarithm.
struct Outcomes {
  int right = 0, wrong = 0, undecided = 0;
  double mean_points = 0.0;
};

Outcomes outcomes_of_lines(double correlation, int draws) {
  std::mt19937 generator(3);
  std::normal_distribution<double> normal;
  Outcomes outcomes;
  for (int i = 0; i < draws; ++i) {
    std::vector<double> values;
    double error = normal(generator);
    for (int d = 0; d < 25; ++d) {
      values.push_back((1.0 + 1.5 * (d - 2) / 22.0) * std::exp(0.02 * error));
      error = correlation * error + std::sqrt(1.0 - correlation * correlation) * normal(generator);
    }
    const auto fit = judge::fit_growth(values);
    const auto laws = judge::likely_laws(fit);
    if (laws.size() != 1) {
      ++outcomes.undecided;
    } else {
      ++(laws.front() == judge::GrowthLaw::linear ? outcomes.right : outcomes.wrong);
    }
    outcomes.mean_points += fit.effective_points / draws;
  }
  return outcomes;
}

TEST_CASE("autocorrelated errors around a line give the expected rates of wrong laws and undecided fits") {
  constexpr int draws = 400;
  struct Row {
    double correlation, wrong, undecided, points;
  };
  // Without the bias correction of the autocorrelation, the rates of wrong laws are 0.10, 0.24 and 0.35 at 22.1, 15.1
  // and 10.5 effective points. The exact effective numbers are 23, 7.7 and 2.6.
  for (const Row& row : {Row{0.0, 0.04, 0.33, 20.0}, {0.5, 0.10, 0.34, 9.3}, {0.8, 0.10, 0.59, 4.6}}) {
    INFO(row.correlation);
    const Outcomes outcomes = outcomes_of_lines(row.correlation, draws);
    // Tolerance: 4 standard deviations of a rate over 400 draws.
    CHECK(std::abs(outcomes.wrong / double{draws} - row.wrong) < 0.06);
    CHECK(std::abs(outcomes.undecided / double{draws} - row.undecided) < 0.1);
    CHECK(outcomes.mean_points == approx(row.points).epsilon(0.12));
    CHECK(outcomes.right + outcomes.wrong + outcomes.undecided == draws);
  }
}

TEST_CASE("laws whose criteria differ by less than 2 are reported together") {
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

TEST_CASE("values that cannot be fitted give NaN and no law") {
  for (const std::vector<double>& values :
       {std::vector<double>{}, {1}, {1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 0, 5, 6, 7, 8}, {1, 2, 3, NAN, 5, 6, 7, 8}}) {
    const auto fit = judge::fit_growth(values);
    for (const auto& law : fit.laws) CHECK(std::isnan(law.criterion));
    CHECK(std::isnan(fit.effective_points));
    CHECK(judge::likely_laws(fit).empty());
  }
  // The first two depths need not be positive.
  CHECK(judge::likely_laws_in_words(judge::fit_growth({0, NAN, 3, 4.1, 4.9, 6.1, 6.9, 8.1})) == "linear");
}

}  // namespace
}  // namespace periscope::testing
