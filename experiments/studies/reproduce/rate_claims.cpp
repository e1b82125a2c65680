#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "experiments/studies/reproduce/ledger.h"
#include "experiments/studies/reproduce/readings.h"

namespace periscope::reproduce {
namespace {

/// The groups of one sweep of the learning rate: those whose names say so behind the placement, and the base's.
struct Sweep {
  std::string id, exhibit, prefix;
  std::string words;  ///< which sweep, for statements
  bool with_base = false;
};

/// The names of a placement's groups in a sweep, by rate. Fewer than `least` are no sweep: it was not run.
std::vector<std::string> swept(const Ledger& ledger, const Sweep& sweep, const std::string& placement,
                               std::size_t least = 2) {
  std::vector<std::pair<double, std::string>> found;
  for (const GroupRuns& runs : ledger.runs()) {
    const std::string& group = runs.group.name;
    if (group.starts_with(placement + ", " + sweep.prefix) || (sweep.with_base && group == placement))
      found.emplace_back(runs.group.train.lr, group);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (const auto& [rate, name] : found) names.push_back(name);
  return names.size() >= least ? names : std::vector{fmt::format("{} at several rates{}", placement, sweep.words)};
}

/// By seed: the final loss of the first group less that of the second.
std::vector<double> loss_differences(const GroupRuns& first, const GroupRuns& second) {
  std::vector<double> values;
  for (std::size_t seed = 0; seed < first.cells.size(); ++seed)
    values.push_back(final_loss(first.cells[seed]) - final_loss(second.cells[seed]));
  return values;
}

using Rates = std::span<const GroupRuns* const>;

/// Losses at the rates of `columns` less those at the rates of `rows`.
judge::SeedTable above(Rates rows, Rates columns) {
  judge::SeedTable table;
  for (const GroupRuns* low : rows) {
    auto& row = table.emplace_back();
    for (const GroupRuns* high : columns) row.push_back(loss_differences(*high, *low));
  }
  return table;
}

/// R3, R8: that Peri-LN's loss at its best rate is below that of another placement at its own, which is that Peri-LN
/// has a rate whose loss is below the other's at each of its rates. The lowest of several losses of a seed would be
/// lower, the more they scatter, and so would be no fair comparison.
void add_best_rate(Ledger& ledger, const Sweep& sweep, const std::string& placement, const std::string& label) {
  std::vector<std::string> needed = swept(ledger, sweep, placement);
  const std::size_t first = needed.size();
  for (const std::string& name : swept(ledger, sweep, "peri")) needed.push_back(name);
  ledger.some_row(
      {sweep.id, sweep.exhibit,
       fmt::format("at the best learning rate of each{}, Peri-LN ends below {}", sweep.words, label),
       fmt::format(
           "final loss, each at the rate of its lowest mean: {} - Peri; p: every rate of {} against one of Peri, "
           "times their number",
           label, label)},
      needed, [first](const auto& groups) { return above(Rates(groups).subspan(first), Rates(groups).first(first)); });
}

/// The logarithm of the rate at which the parabola through the lowest loss and its neighbours is lowest.
double best_log_rate(std::span<const TrainedCell* const> by_rate) {
  const auto loss = [&](std::size_t i) { return final_loss(*by_rate[i]); };
  const auto log_rate = [&](std::size_t i) { return std::log(by_rate[i]->cell.train.lr); };
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

/// R3's shape: that the lowest loss is at none of the sweep's ends, and that Post-LN's is at a lower rate.
void add_shapes(Ledger& ledger, const Sweep& sweep) {
  for (const auto& [placement, label, letter] :
       {std::array<std::string, 3>{"post", "Post-LN", "e"}, {"pre", "Pre-LN", "f"}, {"peri", "Peri-LN", "g"}}) {
    ledger.some_row(
        {"R3" + letter, sweep.exhibit,
         label + "'s loss is lower at a rate within the sweep than at both ends (U-shape)",
         "final loss: the lower mean of the two ends, less the lowest mean between; p: both ends against one "
         "rate between, times the number of those"},
        swept(ledger, sweep, placement, 3), [](const auto& groups) {
          const std::array ends{groups.front(), groups.back()};
          return above(Rates(groups).subspan(1, groups.size() - 2), ends);
        });
  }
  std::vector<std::string> needed = swept(ledger, sweep, "post");
  const std::size_t first = needed.size();
  for (const std::string& name : swept(ledger, sweep, "peri")) needed.push_back(name);
  ledger.add({"R3h", sweep.exhibit, "Post-LN needs a lower learning rate than Peri-LN",
              "ln(rate of the lowest loss, by a parabola): Peri - Post"},
             needed, [first](const auto& r) {
               return best_log_rate(std::span(r).subspan(first)) - best_log_rate(std::span(r).first(first));
             });
}

}  // namespace

void add_rate_claims(Ledger& ledger) {
  const Sweep base{"R3a", "3", "rate x ", "", true};
  add_best_rate(ledger, base, "pre", "Pre-LN");
  add_best_rate(ledger, {"R3b", "3", "rate x ", "", true}, "post", "Post-LN");
  add_best_rate(ledger, {"R3c", "16", "warm-up x 3, ", " with three times the warm-up"}, "pre", "Pre-LN");
  add_best_rate(ledger, {"R3d", "17", "half the length, ", " on sequences of half the length"}, "pre", "Pre-LN");
  add_shapes(ledger, base);
  add_best_rate(ledger, {"R8", "35", "SGD, ", " of SGD"}, "pre", "Pre-LN");
}

}  // namespace periscope::reproduce
