#include "experiments/engine/judge/claims.h"

#include <cmath>
#include <random>

#include "tests/support/doctest.h"

/// Tests of claims: hand-computed values, and error rates simulated at a fixed seed. A rate over n draws may exceed 5 %
/// by 4 standard deviations √(0.05 · 0.95 / n).
namespace periscope::testing {
namespace {

using Values = std::vector<double>;

judge::SignClaim tested(const judge::SeedTable& table) {
  judge::SignClaim claim;
  judge::test_some_row_positive(claim, table);
  return claim;
}

judge::SignClaim tested_values(const Values& values) { return tested({{values}}); }

double largest_rate(int draws) { return 0.05 + 4.0 * std::sqrt(0.05 * 0.95 / draws); }

/// Shares of claims that hold and that fail.
struct Frequencies {
  double holds = 0.0, fails = 0.0;
};

template <class Make>
Frequencies frequencies(int draws, const Make& make) {
  std::mt19937 generator(7);
  Frequencies found;
  for (int i = 0; i < draws; ++i) {
    const judge::SignClaim claim = make(generator);
    if (claim.verdict == judge::ClaimVerdict::holds) found.holds += 1.0 / draws;
    if (claim.verdict == judge::ClaimVerdict::fails) found.fails += 1.0 / draws;
  }
  return found;
}

Values normal_values(std::mt19937& generator, int seeds, double mean, double deviation) {
  std::normal_distribution<double> normal;
  Values values;
  for (int s = 0; s < seeds; ++s) values.push_back(mean + deviation * normal(generator));
  return values;
}

/// Returns the upper tail of Student's t with two degrees of freedom.
double tail(double t) { return 0.5 - 0.5 * t / std::sqrt(t * t + 2.0); }

TEST_CASE("the test of a sign claim is a one-sided t-test") {
  // Mean 2, standard error 1/√3, t = 3.4641: the upper tail with 2 degrees of freedom is 1/2 − t / (2 √(t² + 2)).
  const judge::SignClaim holds = tested_values({1.0, 2.0, 3.0});
  CHECK(holds.mean.value == approx(2.0));
  CHECK(holds.mean.error == approx(1.0 / std::sqrt(3.0)));
  CHECK(holds.p == approx(tail(std::sqrt(12.0))));
  CHECK(holds.detectable == approx(2.0 * 2.919986 / std::sqrt(3.0)));  // twice the one-sided 5 % quantile of t
  CHECK(holds.verdict == judge::ClaimVerdict::holds);
  CHECK(tested_values({-1.0, -2.0, -3.0}).verdict == judge::ClaimVerdict::fails);
  CHECK(tested_values({-1.0, 0.5, 1.0}).verdict == judge::ClaimVerdict::not_shown);
}

/// Means and standard deviations of two normal differences.
struct Differences {
  double large, large_std, small, small_std;
};

Frequencies equivalence_rates(int seeds, const Differences& d) {
  return frequencies(4000, [&](std::mt19937& generator) {
    const Values large = normal_values(generator, seeds, d.large, d.large_std);
    return tested(judge::equivalence_table(large, normal_values(generator, seeds, d.small, d.small_std)));
  });
}

TEST_CASE("the equivalence test errs in at most 5 % of draws at the border of the null hypothesis") {
  for (const int seeds : {3, 5, 10}) {
    CAPTURE(seeds);
    // No difference; a small difference that is ± half of the large difference; noise in only one difference.
    for (const Differences& d :
         {Differences{0.0, 1.0, 0.0, 1.0}, Differences{0.0, 1.0, 0.0, 0.01}, Differences{0.0, 0.01, 0.0, 1.0},
          Differences{2.0, 1.0, 1.0, 1.0}, Differences{-20.0, 1.0, 10.0, 1.0}, Differences{20.0, 1.0, -10.0, 1.0}}) {
      INFO("d.large := ", d.large, ", d.large_std := ", d.large_std, ", d.small_std := ", d.small_std);
      const Frequencies found = equivalence_rates(seeds, d);
      CHECK(found.holds < largest_rate(4000));
      CHECK(found.fails < largest_rate(4000));
    }
    CHECK(equivalence_rates(seeds, {20.0, 1.0, 0.0, 0.5}).holds > 0.95);
    CHECK(equivalence_rates(seeds, {0.5, 0.5, -10.0, 1.0}).fails > 0.95);
  }
}

TEST_CASE("equivalence test: values, p and detectable difference match hand-computed values") {
  const judge::SignClaim claim = tested(judge::equivalence_table({-4.0, -4.2, -4.4}, {0.5, 0.7, 0.6}));
  // |large|/2 − small: 1.5, 1.4, 1.6; |large|/2 + small: 2.5, 2.8, 2.8.
  CHECK(claim.values[0] == approx(1.5));
  CHECK(claim.values[1] == approx(1.4));
  CHECK(claim.values[2] == approx(1.6));
  const double error = 0.1 / std::sqrt(3.0);
  CHECK(claim.p == approx(2.0 * std::max(tail(1.5 / error), tail(2.7 / 0.1))));
  CHECK(claim.detectable == approx(error * (4.302653 + 2.919986)));  // Student's quantiles of 2.5 % and 5 %
}

/// Draws normal losses for each rate of a sweep and tests whether the lowest is between the ends.
judge::SignClaim shape(std::mt19937& generator, const Values& means, const Values& deviations) {
  std::vector<Values> losses;
  for (std::size_t r = 0; r < means.size(); ++r) losses.push_back(normal_values(generator, 3, means[r], deviations[r]));
  judge::SeedTable table;
  for (std::size_t between = 1; between + 1 < losses.size(); ++between) {
    auto& row = table.emplace_back();
    for (const Values& end : {losses.front(), losses.back()}) {
      Values& values = row.emplace_back();
      for (std::size_t s = 0; s < 3; ++s) values.push_back(end[s] - losses[between][s]);
    }
  }
  return tested(table);
}

TEST_CASE("a flat curve is rarely called U-shaped or not U-shaped: in at most 5 % of draws" *
          doctest::test_suite("slow")) {
  constexpr int draws = 20000;
  for (const std::size_t rates : {3UL, 5UL}) {
    CAPTURE(rates);
    const Values flat(rates, 3.0);
    Values rising, noisy_ends(rates, 0.02);
    for (std::size_t r = 0; r < rates; ++r) rising.push_back(0.03 * static_cast<double>(r + 1));
    noisy_ends.front() = noisy_ends.back() = 0.2;
    for (const Values& deviations : {Values(rates, 0.1), rising, noisy_ends}) {
      CAPTURE(deviations);
      const Frequencies found =
          frequencies(draws, [&](std::mt19937& generator) { return shape(generator, flat, deviations); });
      CHECK(found.holds < largest_rate(draws));
      CHECK(found.fails < largest_rate(draws));
    }
    // One end is far above the other values, which are equal: not a U.
    Values slope = flat;
    slope.front() = 30.0;
    CHECK(frequencies(draws, [&](std::mt19937& generator) {
            return shape(generator, slope, Values(rates, 0.1));
          }).holds < largest_rate(draws));
  }
}

TEST_CASE("the test for a U-shaped curve has the expected power") {
  constexpr int draws = 4000;
  const auto holds = [&](const Values& means) {
    return frequencies(draws,
                       [&](std::mt19937& generator) { return shape(generator, means, Values(means.size(), 1.0)); })
        .holds;
  };
  // Expected shares, from 50 000 draws of 3 seeds: 0.950, 0.603 and 0.992.
  const double noise = 4.0 * std::sqrt(0.25 / draws);
  CHECK(std::abs(holds({5.0, 0.0, 5.0}) - 0.950) < noise);
  CHECK(std::abs(holds({5.0, 2.5, 0.0, 2.5, 5.0}) - 0.603) < noise);
  CHECK(std::abs(holds({10.0, 5.0, 0.0, 5.0, 10.0}) - 0.992) < noise);
  CHECK(frequencies(draws, [&](std::mt19937& generator) {
          return shape(generator, {0.0, 10.0, 20.0}, {1.0, 1.0, 1.0});
        }).fails > 0.8);
}

TEST_CASE("test that some row is positive: values, p and detectable difference match hand-computed values") {
  // Standard errors are 1/√3, so t is √3 times the mean.
  const auto around = [](double mean) { return Values{mean - 1.0, mean, mean + 1.0}; };
  const double root = std::sqrt(3.0);
  const judge::SignClaim claim =
      tested({{around(1.0), around(6.0)}, {around(4.0), around(2.0)}, {around(-1.0), around(7.0)}});
  CHECK(claim.values == around(2.0));
  CHECK(claim.p == approx(3.0 * tail(2.0 * root)));
  CHECK(claim.verdict == judge::ClaimVerdict::not_shown);  // p is 0.037 for the best row and 3 · 0.037 for three rows
  // Quantiles of Student's t with two degrees of freedom at 1/60 (closed form) and 1/20.
  const double of_three = (1.0 - 2.0 / 60.0) * std::sqrt(2.0 / (1.0 - std::pow(1.0 - 2.0 / 60.0, 2)));
  CHECK(claim.detectable == approx((of_three + 2.919986) / root));
  const judge::SignClaim opposite = tested({{around(-9.0), around(6.0)}, {around(-8.0), around(-20.0)}});
  CHECK(opposite.values == around(-9.0));
  CHECK(opposite.p == approx(1.0 - 2.0 * tail(8.0 * root)));
  CHECK(opposite.verdict == judge::ClaimVerdict::fails);
}

TEST_CASE("rows without spread, without a second seed or with NaN are not shown, with a reason; other rows count") {
  const Values constant(3, 4.0), high{49.0, 50.0, 51.0};
  CHECK(tested({{constant, high}}).verdict == judge::ClaimVerdict::not_shown);
  CHECK(tested({{constant, high}, {high, high}}).verdict == judge::ClaimVerdict::holds);
  for (const auto& row :
       {std::pair{constant, "no spread over seeds"}, std::pair{Values{1.0, NAN, 2.0}, "a seed's value is not finite"},
        std::pair{Values{1.0}, "too few seeds to estimate the spread"}}) {
    const judge::SignClaim claim = tested_values(row.first);
    CHECK(claim.verdict == judge::ClaimVerdict::not_shown);
    CHECK(std::isnan(claim.p));
    CHECK(std::isnan(claim.detectable));
    CHECK(claim.reason == row.second);
  }
}

TEST_CASE("the lowest of several losses is not called lower because of a larger spread") {
  // Five rates on each side differ only in spread. Testing the difference of the lowest losses would reject in 46 %
  // of the draws.
  const auto make = [](std::mt19937& generator) {
    std::vector<Values> wide, narrow;
    for (int r = 0; r < 5; ++r) {
      wide.push_back(normal_values(generator, 3, 0.0, 1.0));
      narrow.push_back(normal_values(generator, 3, 0.0, 0.2));
    }
    judge::SeedTable table(5);
    for (std::size_t j = 0; j < 5; ++j) {
      for (std::size_t i = 0; i < 5; ++i) {
        Values& values = table[j].emplace_back();
        for (std::size_t s = 0; s < 3; ++s) values.push_back(wide[i][s] - narrow[j][s]);
      }
    }
    return tested(table);
  };
  const Frequencies found = frequencies(4000, make);
  CHECK(found.holds < largest_rate(4000));
  CHECK(found.fails < largest_rate(4000));
}

judge::SignClaim spread_claim(const Values& first, const Values& second) {
  judge::SignClaim claim;
  judge::test_spreads_more(claim, first, second);
  return claim;
}

TEST_CASE("paired spreads are compared by the correlation of sum and difference (Pitman-Morgan)") {
  // Sums 2, 1, −3 and differences 4, −1, −3, all with mean 0: products 8, −1, 9, correlation 16 / √(14 · 26).
  const judge::SignClaim claim = spread_claim({3.0, 0.0, -3.0}, {-1.0, 1.0, 0.0});
  CHECK(claim.values[0] == approx(8.0));
  CHECK(claim.values[1] == approx(-1.0));
  CHECK(claim.values[2] == approx(9.0));
  const double r = 16.0 / std::sqrt(14.0 * 26.0);
  // Student's t with one degree of freedom is the Cauchy distribution.
  CHECK(claim.p == approx(0.5 - std::atan(r / std::sqrt(1.0 - r * r)) / M_PI));
  CHECK(std::isnan(claim.detectable));
  CHECK(spread_claim({3.0, 4.0}, {1.0, 2.0}).reason == "too few seeds to estimate the spread");
}

TEST_CASE("equal paired spreads are declared different in 5 % of draws, at any correlation") {
  constexpr int draws = 20000;
  for (const double common : {0.0, 0.5, 3.0}) {
    CAPTURE(common);
    const Frequencies found = frequencies(draws, [&](std::mt19937& generator) {
      const Values shared = normal_values(generator, 3, 0.0, common);
      Values first = normal_values(generator, 3, 5.0, 1.0), second = normal_values(generator, 3, 1.0, 1.0);
      for (std::size_t s = 0; s < 3; ++s) {
        first[s] += shared[s];
        second[s] += shared[s];
      }
      return spread_claim(first, second);
    });
    CHECK(std::abs(found.holds - 0.05) < largest_rate(draws) - 0.05);
    CHECK(std::abs(found.fails - 0.05) < largest_rate(draws) - 0.05);
  }
}

TEST_CASE("Holm's method corrects claims for both signs") {
  std::vector<judge::SignClaim> claims;
  for (const double p : Values{0.01, 0.9, 0.997, NAN, 0.4, 0.012}) {
    claims.emplace_back();
    claims.back().p = p;
    claims.back().verdict = judge::ClaimVerdict::not_shown;
  }
  claims.emplace_back();  // not run
  claims.back().p = 1e-9;
  judge::apply_holm_correction(claims);
  // Sorted two-sided p times the number of remaining tests: 0.006 · 5, 0.02 · 4, 0.024 · 3 (raised to the previous
  // value, 0.08), 0.2 · 2, 0.8 · 1.
  CHECK(claims[2].holm == approx(0.03));
  CHECK(claims[0].holm == approx(0.08));
  CHECK(claims[5].holm == approx(0.08));
  CHECK(claims[1].holm == approx(0.4));
  CHECK(claims[4].holm == approx(0.8));
  CHECK(std::isnan(claims[3].holm));
  CHECK(std::isnan(claims[6].holm));
}

}  // namespace
}  // namespace periscope::testing
