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

/// Which of the runs did not come to their end: what they say of it is what was recorded last.
std::string unfinished(const std::vector<const GroupRuns*>& groups) {
  std::string words;
  for (const GroupRuns* group : groups) {
    const auto lost = std::ranges::count_if(group->cells, [](const train::TrainedCell& cell) {
      return static_cast<int>(cell.history.loss.size()) < cell.cell.train.steps;
    });
    if (lost > 0) {
      words += fmt::format("{} of {} runs of {} ended early: their last record counts; ", lost, group->cells.size(),
                           group->group.name);
    }
  }
  return words;
}

}  // namespace

void Ledger::add_of_groups(const Words& words, const std::vector<std::string>& needed, const GroupReading& values) {
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
      claim.reason += (claim.reason.empty() ? "no runs of " : "; ") + name;
    else
      groups.push_back(&*it);
  }
  if (claim.reason.empty()) {
    claim.values = values(groups);
    claim.reason = unfinished(groups);
    test_positive(claim);
  }
  claims_.push_back(std::move(claim));
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
  RunningMoments moments;
  for (const double value : claim.values) moments.add(value);
  claim.mean = moments.mean();
  claim.standard_error = moments.standard_error();
  // What the values' own roundings make of equal numbers is no spread.
  const double least = 1e-12 * std::abs(claim.mean);
  if (claim.values.size() < 2 || !std::isfinite(claim.mean) || !(claim.standard_error > least)) {
    claim.verdict = ClaimVerdict::not_shown;
    claim.p = claim.seen = std::numeric_limits<double>::quiet_NaN();
    if (!claim.reason.empty()) claim.reason += "; ";
    claim.reason += claim.values.size() < 2      ? "too few seeds to tell a spread"
                    : !std::isfinite(claim.mean) ? "a seed's value is not finite"
                                                 : "no spread over seeds";
    return;
  }
  const boost::math::students_t law(static_cast<double>(claim.values.size() - 1));
  claim.p = boost::math::cdf(boost::math::complement(law, claim.mean / claim.standard_error));
  const double critical = boost::math::quantile(boost::math::complement(law, level));
  claim.seen = 2.0 * critical * claim.standard_error;  // the level and the power are both 95 %
  claim.verdict = claim.p <= level         ? ClaimVerdict::holds
                  : claim.p >= 1.0 - level ? ClaimVerdict::fails
                                           : ClaimVerdict::not_shown;
}

}  // namespace periscope::reproduce
