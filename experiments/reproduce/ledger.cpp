#include "experiments/reproduce/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "sim/measure/running_moments.h"

namespace periscope::reproduce {
namespace {

constexpr double level = 0.05;

void add_reason(Claim& claim, const std::string& reason) {
  claim.reason += (claim.reason.empty() ? "" : "; ") + reason;
}

/// Names the runs that did not come to their end.
void name_unfinished(const std::vector<const GroupRuns*>& groups, Claim& claim) {
  for (const GroupRuns* group : groups) {
    const auto lost = std::ranges::count_if(group->cells, [](const train::TrainedCell& cell) {
      return static_cast<int>(cell.history.loss.size()) < cell.cell.train.steps;
    });
    if (lost == 0) continue;
    add_reason(claim,
               fmt::format("{} of {} runs of {} ended early: their final loss counts as ln V, all else as far as "
                           "they came",
                           lost, group->cells.size(), group->group.name));
  }
}

/// Student's t test of a mean over seeds.
struct MeanTest {
  double mean, standard_error;
  double p;  ///< that the mean is so large or larger by chance

  explicit MeanTest(const std::vector<double>& values) {
    RunningMoments moments;
    for (const double value : values) moments.add(value);
    mean = moments.mean();
    standard_error = moments.standard_error();
    p = std::numeric_limits<double>::quiet_NaN();
    if (values.size() < 2 || !std::isfinite(mean) || !has_spread()) return;
    p = boost::math::cdf(boost::math::complement(law(values), mean / standard_error));
  }
  /// What the values' own roundings make of equal numbers is no spread.
  [[nodiscard]] bool has_spread() const { return standard_error > 1e-12 * std::abs(mean); }
  static boost::math::students_t law(const std::vector<double>& values) {
    return boost::math::students_t(static_cast<double>(values.size() - 1));
  }
};

/// `positive` and `negative` are the chances of what was found if the number that should be positive is 0.
void decide(Claim& claim, double positive, double negative, double level_of_each) {
  const MeanTest test(claim.values);
  claim.mean = test.mean;
  claim.standard_error = test.standard_error;
  claim.p = claim.detectable = std::numeric_limits<double>::quiet_NaN();
  claim.verdict = ClaimVerdict::not_shown;
  if (std::isnan(positive) || std::isnan(negative)) {
    add_reason(claim, claim.values.size() < 2      ? "too few seeds to tell a spread"
                      : !std::isfinite(claim.mean) ? "a seed's value is not finite"
                                                   : "no spread over seeds");
    return;
  }
  // Tests of likeness may find neither sign likelier than the other.
  claim.p = positive < 0.5 ? positive : negative < 0.5 ? 1.0 - negative : 0.5;
  const double critical = boost::math::quantile(boost::math::complement(MeanTest::law(claim.values), level_of_each));
  claim.detectable = 2.0 * critical * claim.standard_error;  // so that the power is as large as the confidence
  if (positive <= level) claim.verdict = ClaimVerdict::holds;
  if (negative <= level) claim.verdict = ClaimVerdict::fails;
}

double mean_of(const std::vector<double>& values) { return MeanTest(values).mean; }

}  // namespace

void Ledger::add_judged(const Words& words, const std::vector<std::string>& needed, const Judge& judge) {
  Claim claim{.id = words.id,
              .exhibit = words.exhibit,
              .statement = words.statement,
              .quantity = words.quantity,
              .values = {},
              .reason = ""};
  std::vector<const GroupRuns*> groups;
  for (const std::string& name : needed) {
    const auto it = std::ranges::find(runs_, name, [](const GroupRuns& r) { return r.group.name; });
    if (it == runs_.end())
      add_reason(claim, "no runs of " + name);
    else
      groups.push_back(&*it);
  }
  if (groups.size() == needed.size()) {
    name_unfinished(groups, claim);
    judge(groups, claim);
  }
  claims_.push_back(std::move(claim));
}

void Ledger::add_of_groups(const Words& words, const std::vector<std::string>& needed, const GroupReading& values) {
  add_judged(words, needed, [&](const auto& groups, Claim& claim) {
    claim.values = values(groups);
    test_positive(claim);
  });
}

void Ledger::alike(const Words& words, const std::vector<std::string>& needed, const DifferencesReading& differences) {
  add_judged(words, needed, [&](const auto& groups, Claim& claim) {
    const Differences found = differences(groups);
    test_alike(claim, found.large, found.small);
  });
}

void Ledger::add(const Words& words, const std::vector<std::string>& needed, const TwinReading& value) {
  add_of_groups(words, needed, [&](const std::vector<const GroupRuns*>& groups) {
    std::vector<double> values;
    for (std::size_t seed = 0; seed < groups.front()->cells.size(); ++seed) {
      std::vector<const train::TrainedCell*> twins;
      for (const GroupRuns* group : groups) twins.push_back(&group->cells[seed]);
      values.push_back(value(twins));
    }
    return values;
  });
}

void Ledger::larger(const Words& words, const std::string& first, const std::string& second, const Reading& reading) {
  add(words, {first, second}, [&](const auto& twins) { return reading(*twins[0]) - reading(*twins[1]); });
}

void test_positive(Claim& claim) {
  const double p = MeanTest(claim.values).p;
  decide(claim, p, 1.0 - p, level);
}

void test_alike(Claim& claim, const std::vector<double>& large, const std::vector<double>& small) {
  const double half = std::copysign(0.5, mean_of(large));
  const double sign = std::copysign(1.0, mean_of(small));
  std::vector<double> below;   // half of the large one above the small one
  std::vector<double> beside;  // and above its opposite
  std::vector<double> beyond;  // the small one above half of the large one
  for (std::size_t seed = 0; seed < large.size(); ++seed) {
    below.push_back(half * large[seed] - sign * small[seed]);
    beside.push_back(half * large[seed] + sign * small[seed]);
    beyond.push_back(-below.back());
  }
  claim.values = below;
  const double of_beside = MeanTest(beside).p;
  const auto both = [&](const std::vector<double>& one) {
    const double p = MeanTest(one).p;
    return std::isnan(of_beside) ? of_beside : std::isnan(p) ? p : std::min(1.0, 2.0 * std::max(p, of_beside));
  };
  decide(claim, both(below), both(beyond), 0.5 * level);
}

}  // namespace periscope::reproduce
