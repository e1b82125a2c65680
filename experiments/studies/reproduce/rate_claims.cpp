#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "experiments/studies/reproduce/claims.h"

namespace periscope::reproduce {
namespace {

/// The groups of one sweep of the learning rate: those whose names say so after the placement, and the base's.
struct Sweep {
  const std::vector<GroupRuns>& runs;
  std::string prefix;
  std::string words = {};  ///< which sweep, for statements
  bool with_base = false;
};

/// The names of a placement's groups in a sweep, by rate. Fewer than `least` are no sweep: it was not run.
std::vector<std::string> swept(const Sweep& sweep, const std::string& placement, std::size_t least = 2) {
  std::vector<std::pair<double, std::string>> found;
  for (const GroupRuns& runs : sweep.runs) {
    const std::string& group = runs.group.name;
    if (group.starts_with(placement + ", " + sweep.prefix) || (sweep.with_base && group == placement))
      found.emplace_back(runs.group.train.lr, group);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (const auto& [rate, name] : found) names.push_back(name);
  return names.size() >= least ? names : std::vector{fmt::format("{} at several rates{}", placement, sweep.words)};
}

std::vector<std::string> both(const Sweep& sweep, const std::string& first, const std::string& second) {
  std::vector<std::string> groups = swept(sweep, first);
  for (const std::string& name : swept(sweep, second)) groups.push_back(name);
  return groups;
}

using Rates = std::span<const GroupRuns* const>;

/// Those of a placement, by rate.
Rates of(const ClaimRow::Runs& runs, const std::string& placement) {
  const auto own = [&](const GroupRuns* one) { return one->group.name.starts_with(placement); };
  const auto first = std::ranges::find_if(runs, own);
  return {first, std::find_if_not(first, runs.end(), own)};
}

/// Tests that in some group of `rows` all losses are below those of every group of `columns`.
void test_below(judge::SignClaim& claim, Rates rows, Rates columns) {
  judge::SeedTable table;
  for (const GroupRuns* low : rows) {
    auto& row = table.emplace_back();
    for (const GroupRuns* high : columns) row.push_back(differences(*high, *low, final_loss));
  }
  judge::test_some_row_positive(claim, table);
}

/// R3, R8: that Peri-LN's loss at its best rate is below that of another placement at its own, which is that Peri-LN
/// has a rate whose loss is below the other's at each of its rates. The lowest of several losses of a seed would be
/// lower, the more they scatter, and so would be no fair comparison.
ClaimRow best_rate(const std::string& id, const std::string& exhibit, const Sweep& sweep, const std::string& placement,
                   const std::string& label) {
  return {id,
          exhibit,
          fmt::format("at the best learning rate of each{}, Peri-LN ends below {}", sweep.words, label),
          fmt::format("final loss, each at the rate of its lowest mean: {} - Peri; p: every rate of {} against one of "
                      "Peri, times their number",
                      label, label),
          both(sweep, placement, "peri"),
          [placement](judge::SignClaim& claim, const ClaimRow::Runs& runs) {
            test_below(claim, of(runs, "peri"), of(runs, placement));
          }};
}

/// That the lowest loss of a placement is at neither end of the sweep.
ClaimRow shape(const std::string& id, const Sweep& sweep, const std::string& placement, const std::string& label) {
  return {id,
          "3",
          label + "'s loss is lower at a rate within the sweep than at both ends (U-shape)",
          "final loss: the lower mean of the two ends, less the lowest mean between; p: both ends against one rate "
          "between, times the number of those",
          swept(sweep, placement, 3),
          [](judge::SignClaim& claim, const ClaimRow::Runs& runs) {
            const std::array ends{runs.front(), runs.back()};
            test_below(claim, Rates(runs).subspan(1, runs.size() - 2), ends);
          }};
}

/// The logarithm of the rate at which the parabola through the lowest loss and its neighbours is lowest.
double best_log_rate(Rates by_rate, std::size_t seed) {
  const auto loss = [&](std::size_t i) { return final_loss(by_rate[i]->cells[seed]); };
  const auto log_rate = [&](std::size_t i) { return std::log(by_rate[i]->cells[seed].cell.train.lr); };
  std::size_t best = 0;
  for (std::size_t i = 1; i < by_rate.size(); ++i)
    if (loss(i) < loss(best)) best = i;
  if (best == 0 || best + 1 == by_rate.size()) return log_rate(best);
  const double left = log_rate(best) - log_rate(best - 1), right = log_rate(best + 1) - log_rate(best);
  const double down = (loss(best - 1) - loss(best)) / left, up = (loss(best + 1) - loss(best)) / right;
  // Slopes of the parabola: -down at the middle of the left piece, up at that of the right one; the zero lies between.
  const double from = log_rate(best) - left / 2.0, to = log_rate(best) + right / 2.0;
  return up + down > 0.0 ? from + (to - from) * down / (up + down) : log_rate(best);
}

ClaimRow lower_rate(const Sweep& sweep) {
  return {"R3h",
          "3",
          "Post-LN needs a lower learning rate than Peri-LN",
          "ln(rate of the lowest loss, by a parabola): Peri - Post",
          both(sweep, "post", "peri"),
          [](judge::SignClaim& claim, const ClaimRow::Runs& runs) {
            std::vector<double> values;
            for (std::size_t seed = 0; seed < runs.front()->cells.size(); ++seed) {
              values.push_back(best_log_rate(of(runs, "peri"), seed) - best_log_rate(of(runs, "post"), seed));
            }
            judge::test_some_row_positive(claim, {{values}});
          }};
}

}  // namespace

std::vector<ClaimRow> rate_claims(const std::vector<GroupRuns>& runs) {
  const Sweep base{.runs = runs, .prefix = "rate x ", .with_base = true};
  return {best_rate("R3a", "3", base, "pre", "Pre-LN"),
          best_rate("R3b", "3", base, "post", "Post-LN"),
          best_rate("R3c", "16", {runs, "warm-up x 3, ", " with three times the warm-up"}, "pre", "Pre-LN"),
          best_rate("R3d", "17", {runs, "half the length, ", " on sequences of half the length"}, "pre", "Pre-LN"),
          shape("R3e", base, "post", "Post-LN"),
          shape("R3f", base, "pre", "Pre-LN"),
          shape("R3g", base, "peri", "Peri-LN"),
          lower_rate(base),
          best_rate("R8", "35", {runs, "SGD, ", " of SGD"}, "pre", "Pre-LN")};
}

}  // namespace periscope::reproduce
