#include "experiments/engine/judge/sign_claim_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numbers>

#include "sim/measure/running_moments.h"

namespace periscope::judge {
namespace {

using Values = std::vector<double>;

constexpr double least_power = 0.95;
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

boost::math::students_t law_of(std::size_t seeds, std::size_t estimated = 1) {
  return boost::math::students_t(static_cast<double>(seeds - estimated));
}

/// Student's t test of a mean over seeds.
struct MeanTest {
  double mean, standard_error;
  double p = unknown;         ///< that the mean is so large or larger by chance
  double opposite = unknown;  ///< so small or smaller

  explicit MeanTest(const Values& values) {
    RunningMoments moments;
    for (const double value : values) moments.add(value);
    mean = moments.mean();
    standard_error = moments.standard_error();
    if (values.size() < 2 || !std::isfinite(mean) || !has_spread()) return;
    p = boost::math::cdf(boost::math::complement(law_of(values.size()), mean / standard_error));
    opposite = boost::math::cdf(law_of(values.size()), mean / standard_error);
  }
  /// True if the values spread by more than their own roundings make of equal numbers.
  [[nodiscard]] bool has_spread() const { return standard_error > 1e-12 * std::abs(mean); }
};

double mean_of(const Values& values) { return MeanTest(values).mean; }

/// `positive` and `negative` are the chances of what was found if the number that should be positive is 0.
void decide(SignClaim& claim, double positive, double negative) {
  const MeanTest test(claim.values);
  claim.mean = test.mean;
  claim.standard_error = test.standard_error;
  claim.p = claim.detectable = unknown;
  claim.verdict = ClaimVerdict::not_shown;
  if (std::isnan(positive) || std::isnan(negative)) {
    add_reason(claim, claim.values.size() < 2      ? "too few seeds to tell a spread"
                      : !std::isfinite(claim.mean) ? "a seed's value is not finite"
                                                   : "no spread over seeds");
    return;
  }
  // Tests of several numbers may find neither sign likelier than the other.
  claim.p = positive < 0.5 ? positive : negative < 0.5 ? 1.0 - negative : 0.5;
  if (positive <= sign_claim_level) claim.verdict = ClaimVerdict::holds;
  if (negative <= sign_claim_level) claim.verdict = ClaimVerdict::fails;
}

/// Fills `detectable` of a decided claim whose binding test is a t test of `values` at `level_of_each`.
void state_detectable(SignClaim& claim, double level_of_each) {
  if (!std::isnan(claim.p))
    claim.detectable = claim.standard_error * detectable_in_errors(claim.values.size(), level_of_each);
}

/// Standard deviations of so many seeds in units of the true one, at the middles of equally likely parts.
Values likely_spreads(std::size_t seeds) {
  constexpr int parts = 256;
  const auto freedom = static_cast<double>(seeds - 1);
  const boost::math::chi_squared law(freedom);
  Values spreads;
  for (int i = 0; i < parts; ++i) spreads.push_back(std::sqrt(boost::math::quantile(law, (i + 0.5) / parts) / freedom));
  return spreads;
}

double detectable_of(std::size_t seeds, double at_level) {
  const double critical = boost::math::quantile(boost::math::complement(law_of(seeds), at_level));
  const Values spreads = likely_spreads(seeds);
  const auto found = [&](double c) {
    double sum = 0.0;
    for (const double before : spreads) {
      for (const double now : spreads) sum += 0.5 * std::erfc((critical * now - c * before) / std::numbers::sqrt2);
    }
    return sum / static_cast<double>(spreads.size() * spreads.size());
  };
  double low = 0.0, high = critical + 2.0;
  while (found(high) < least_power) high *= 2.0;
  while (high - low > 1e-4 * high) {
    const double middle = 0.5 * (low + high);
    (found(middle) < least_power ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

/// Chances that a table's entries are so large, or so small, if they are 0; 1 where an entry has no test.
struct Chances {
  std::vector<Values> positive, negative;  ///< by row and column
  bool tested = false;                     ///< whether any entry has one
};

Chances chances_of(const SeedTable& table) {
  Chances chances;
  for (const auto& row : table) {
    Values& positive = chances.positive.emplace_back();
    Values& negative = chances.negative.emplace_back();
    for (const Values& values : row) {
      const MeanTest test(values);
      const bool has_test = !std::isnan(test.p);
      chances.tested = chances.tested || has_test;
      positive.push_back(has_test ? test.p : 1.0);
      negative.push_back(has_test ? test.opposite : 1.0);
    }
  }
  return chances;
}

/// The entry whose mean says whether there is a row of positive means.
const Values& decisive(const SeedTable& table) {
  const auto least_of = [](const std::vector<Values>& row) { return std::ranges::min_element(row, {}, mean_of); };
  const auto least_mean = [&](const std::vector<Values>& row) { return mean_of(*least_of(row)); };
  return *least_of(*std::ranges::max_element(table, {}, least_mean));
}

}  // namespace

void add_reason(SignClaim& claim, const std::string& reason) {
  claim.reason += (claim.reason.empty() ? "" : "; ") + reason;
}

double detectable_in_errors(std::size_t seeds, double at_level) {
  static std::mutex mutex;
  static std::map<std::pair<std::size_t, double>, double> known;
  const std::scoped_lock lock(mutex);
  const auto [entry, is_new] = known.try_emplace({seeds, at_level}, 0.0);
  if (is_new) entry->second = detectable_of(seeds, at_level);
  return entry->second;
}

void test_positive(SignClaim& claim) {
  const MeanTest test(claim.values);
  decide(claim, test.p, test.opposite);
  state_detectable(claim, sign_claim_level);
}

void set_not_testable(SignClaim& claim, const std::string& reason) {
  claim.verdict = ClaimVerdict::not_testable;
  claim.p = claim.detectable = unknown;
  add_reason(claim, reason);
}

void test_alike(SignClaim& claim, const Values& large, const Values& small) {
  const double half = std::copysign(0.5, mean_of(large));
  const double sign = std::copysign(1.0, mean_of(small));
  Values below;   // half of the large one above the small one
  Values beside;  // and above its opposite
  for (std::size_t seed = 0; seed < large.size(); ++seed) {
    below.push_back(half * large[seed] - sign * small[seed]);
    beside.push_back(half * large[seed] + sign * small[seed]);
  }
  claim.values = below;
  const MeanTest of_below(below);
  const double of_beside = MeanTest(beside).p;
  const auto both = [&](double p) {
    return std::isnan(of_beside) ? of_beside : std::isnan(p) ? p : std::min(1.0, 2.0 * std::max(p, of_beside));
  };
  decide(claim, both(of_below.p), both(of_below.opposite));
  state_detectable(claim, 0.5 * sign_claim_level);
}

void test_some_row_positive(SignClaim& claim, const SeedTable& differences) {
  const auto rows = static_cast<double>(differences.size());
  const auto columns = static_cast<double>(differences.front().size());
  claim.values = decisive(differences);
  const Chances chances = chances_of(differences);
  double positive = 1.0;
  for (const Values& row : chances.positive) positive = std::min(positive, rows * std::ranges::max(row));
  double negative = 1.0;
  for (std::size_t c = 0; c < differences.front().size(); ++c) {
    double largest = 0.0;
    for (const Values& row : chances.negative) largest = std::max(largest, row[c]);
    negative = std::min(negative, columns * largest);
  }
  const bool tested = chances.tested && std::isfinite(mean_of(claim.values));
  decide(claim, tested ? positive : unknown, tested ? negative : unknown);
  state_detectable(claim, sign_claim_level / rows);
}

void test_spreads_more(SignClaim& claim, const Values& first, const Values& second) {
  Values sum, difference;
  if (first.size() < 3) {  // two are as far from their mean as each other
    decide(claim, unknown, unknown);
    return;
  }
  for (std::size_t seed = 0; seed < first.size(); ++seed) {
    sum.push_back(first[seed] + second[seed]);
    difference.push_back(first[seed] - second[seed]);
  }
  const double sum_mean = mean_of(sum), difference_mean = mean_of(difference);
  double covariance = 0.0, of_sum = 0.0, of_difference = 0.0;
  for (std::size_t seed = 0; seed < first.size(); ++seed) {
    const double s = sum[seed] - sum_mean, d = difference[seed] - difference_mean;
    claim.values.push_back(s * d);
    covariance += s * d;
    of_sum += s * s;
    of_difference += d * d;
  }
  const double r = covariance / std::sqrt(of_sum * of_difference);
  if (!std::isfinite(r)) {
    decide(claim, unknown, unknown);
    return;
  }
  const auto freedom = static_cast<double>(first.size() - 2);
  const double t = r * std::sqrt(freedom / std::max(1.0 - r * r, std::numeric_limits<double>::min()));
  const auto law = law_of(first.size(), 2);
  decide(claim, boost::math::cdf(boost::math::complement(law, t)), boost::math::cdf(law, t));
}

void correct_for_number(std::vector<SignClaim>& claims) {
  std::vector<SignClaim*> tested;
  for (SignClaim& claim : claims) {
    if (!std::isnan(claim.p) && claim.verdict != ClaimVerdict::not_run) tested.push_back(&claim);
  }
  const auto two_sided = [](const SignClaim* claim) { return std::min(1.0, 2.0 * std::min(claim->p, 1.0 - claim->p)); };
  std::ranges::sort(tested, {}, two_sided);
  double before = 0.0;  // what is less likely than another one by chance stays so
  for (std::size_t i = 0; i < tested.size(); ++i) {
    before = std::max(before, std::min(1.0, static_cast<double>(tested.size() - i) * two_sided(tested[i])));
    tested[i]->holm = before;
  }
}

}  // namespace periscope::judge
