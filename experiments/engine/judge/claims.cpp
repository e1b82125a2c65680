#include "experiments/engine/judge/claims.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "experiments/engine/judge/judge.h"
#include "experiments/engine/judge/seed_rows.h"

namespace periscope::judge {
namespace {

using Values = std::vector<double>;

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// One-sided p-values of a number under the null hypothesis that its true value is 0.
struct PValues {
  double positive = unknown;  ///< against the alternative of a positive true value
  double negative = unknown;  ///< against the alternative of a negative true value
};

PValues p_values_of(double t, double degrees) {
  const boost::math::students_t law(degrees);
  return {boost::math::cdf(boost::math::complement(law, t)), boost::math::cdf(law, t)};
}

/// Returns the p-values of a mean over seeds; NaN if the spread over seeds is within rounding errors.
PValues p_values_of(const Values& values) {
  const Estimate mean = mean_over_seeds(values);
  if (values.size() < 2 || !std::isfinite(mean.value) || !(mean.error > 1e-12 * std::abs(mean.value))) return {};
  return p_values_of(mean.value / mean.error, static_cast<double>(values.size() - 1));
}

void set_verdict(SignClaim& claim, const PValues& p) {
  claim.mean = mean_over_seeds(claim.values);
  claim.p = claim.detectable = unknown;
  claim.verdict = ClaimVerdict::not_shown;
  if (std::isnan(p.positive)) {
    add_reason(claim, claim.values.size() < 2            ? "too few seeds to estimate the spread"
                      : !std::isfinite(claim.mean.value) ? "a seed's value is not finite"
                                                         : "no spread over seeds");
    return;
  }
  // If a claim is about several numbers, both p-values may be 0.5 or more.
  claim.p = p.positive < 0.5 ? p.positive : p.negative < 0.5 ? 1.0 - p.negative : 0.5;
  if (p.positive <= sign_claim_level) claim.verdict = ClaimVerdict::holds;
  if (p.negative <= sign_claim_level) claim.verdict = ClaimVerdict::fails;
}

/// Returns the entry that decides whether some row has only positive means: max over rows of the smallest mean.
const Values& deciding_entry(const SeedTable& table) {
  const auto mean_of = [](const Values& values) { return mean_over_seeds(values).value; };
  const auto least_of = [&](const std::vector<Values>& row) { return std::ranges::min_element(row, {}, mean_of); };
  const auto least_mean = [&](const std::vector<Values>& row) { return mean_of(*least_of(row)); };
  return *least_of(*std::ranges::max_element(table, {}, least_mean));
}

}  // namespace

void judge(const std::vector<Claim*>& claims, double familywise_error) {
  std::vector<Test*> tests;
  for (Claim* claim : claims) tests.push_back(&claim->test);
  judge(tests, {familywise_error});
  for (Claim* claim : claims) {
    const Test& test = claim->test;
    if (test.verdict == Verdict::not_checked || !test.is_finite()) continue;
    const double limit = test.critical * test.error();
    const auto within = [&](double off) { return std::abs(test.measured.value - off - claim->claimed) <= limit; };
    const bool unconditional = within(0.0) && std::abs(claim->correction) <= limit;
    claim->verdict = !unconditional && !within(claim->correction) ? ClaimVerdict::fails
                     : test.underpowered()                        ? ClaimVerdict::not_shown
                     : unconditional                              ? ClaimVerdict::holds
                                                                  : ClaimVerdict::holds_with_condition;
  }
}

void add_reason(SignClaim& claim, const std::string& reason) {
  claim.reason += (claim.reason.empty() ? "" : "; ") + reason;
}

void set_not_testable(SignClaim& claim, const std::string& reason) {
  claim.verdict = ClaimVerdict::not_testable;
  claim.p = claim.detectable = unknown;
  add_reason(claim, reason);
}

void test_some_row_positive(SignClaim& claim, const SeedTable& table) {
  const auto rows = static_cast<double>(table.size());
  claim.values = deciding_entry(table);
  bool tested = false;
  double positive = 1.0;
  Values negative(table.front().size(), 0.0);  // largest p-value of every column
  for (const std::vector<Values>& row : table) {
    double largest = 0.0;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const PValues entry = p_values_of(row[c]);
      const bool has_test = !std::isnan(entry.positive);
      tested = tested || has_test;
      largest = std::max(largest, has_test ? entry.positive : 1.0);
      negative[c] = std::max(negative[c], has_test ? entry.negative : 1.0);
    }
    positive = std::min(positive, rows * largest);
  }
  const double opposite = std::min(1.0, static_cast<double>(negative.size()) * std::ranges::min(negative));
  tested = tested && std::isfinite(mean_over_seeds(claim.values).value);
  set_verdict(claim, tested ? PValues{positive, opposite} : PValues{});
  if (!tested) return;
  const Test test{.measured = claim.mean, .seeds = static_cast<int>(claim.values.size())};
  claim.detectable = test.detectable_at(2.0 * sign_claim_level / rows);  // the t test is one-sided
}

SeedTable equivalence_table(const Values& large, const Values& small) {
  SeedTable table(2, std::vector<Values>(2));
  for (std::size_t seed = 0; seed < large.size(); ++seed) {
    for (const std::size_t row : {0, 1}) {
      const double half = (row == 0 ? 0.5 : -0.5) * large[seed];
      table[row][0].push_back(half - small[seed]);
      table[row][1].push_back(half + small[seed]);
    }
  }
  return table;
}

void test_spreads_more(SignClaim& claim, const Values& first, const Values& second) {
  if (first.size() < 3) {  // with two values, the correlation is ±1 or undefined
    set_verdict(claim, {});
    return;
  }
  Values sum, difference;
  for (std::size_t seed = 0; seed < first.size(); ++seed) {
    sum.push_back(first[seed] + second[seed]);
    difference.push_back(first[seed] - second[seed]);
  }
  const double sum_mean = mean_over_seeds(sum).value, difference_mean = mean_over_seeds(difference).value;
  double covariance = 0.0, of_sum = 0.0, of_difference = 0.0;
  for (std::size_t seed = 0; seed < first.size(); ++seed) {
    const double s = sum[seed] - sum_mean, d = difference[seed] - difference_mean;
    claim.values.push_back(s * d);
    covariance += s * d;
    of_sum += s * s;
    of_difference += d * d;
  }
  const double r = covariance / std::sqrt(of_sum * of_difference);
  const auto degrees = static_cast<double>(first.size() - 2);
  const double t = r * std::sqrt(degrees / std::max(1.0 - r * r, std::numeric_limits<double>::min()));
  set_verdict(claim, std::isfinite(r) ? p_values_of(t, degrees) : PValues{});
}

void apply_holm_correction(std::vector<SignClaim>& claims) {
  std::vector<SignClaim*> tested;
  for (SignClaim& claim : claims) {
    if (!std::isnan(claim.p) && claim.verdict != ClaimVerdict::not_run) tested.push_back(&claim);
  }
  const auto two_sided = [](const SignClaim* claim) { return std::min(1.0, 2.0 * std::min(claim->p, 1.0 - claim->p)); };
  std::ranges::sort(tested, {}, two_sided);
  double previous = 0.0;  // largest so far: corrected p-values must not decrease
  for (std::size_t i = 0; i < tested.size(); ++i) {
    previous = std::max(previous, std::min(1.0, static_cast<double>(tested.size() - i) * two_sided(tested[i])));
    tested[i]->holm = previous;
  }
}

}  // namespace periscope::judge
