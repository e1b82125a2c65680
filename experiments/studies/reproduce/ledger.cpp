#include "experiments/studies/reproduce/ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/engine/run/regime.h"

namespace periscope::reproduce {
namespace {

/// Names the runs that did not come to their end.
void name_unfinished(const std::vector<const GroupRuns*>& groups, judge::SignClaim& claim) {
  for (const GroupRuns* group : groups) {
    const auto lost = std::ranges::count_if(group->cells, [](const training::TrainedCell& cell) {
      return static_cast<int>(cell.history.loss.size()) < cell.cell.train.steps;
    });
    if (lost == 0) continue;
    judge::add_reason(
        claim, fmt::format("{} of {} runs of {} ended early: their final loss counts as ln V, all else as far as "
                           "they came",
                           lost, group->cells.size(), group->group.name));
  }
}

double trained_tokens(const GroupRuns& runs) {
  const TrainSpec& train = runs.group.train;
  return 1.0 * train.steps * train.batch * runs.group.spec.input.tokens;
}

}  // namespace

void Ledger::add_judged(const Words& words, const std::vector<std::string>& needed, const Judge& judge) {
  judge::SignClaim claim{.id = words.id,
                         .exhibit = words.exhibit,
                         .statement = words.statement,
                         .quantity = words.quantity,
                         .values = {},
                         .reason = ""};
  std::vector<const GroupRuns*> groups;
  for (const std::string& name : needed) {
    const auto it = std::ranges::find(runs_, name, [](const GroupRuns& r) { return r.group.name; });
    if (it == runs_.end())
      judge::add_reason(claim, "no runs of " + name);
    else
      groups.push_back(&*it);
  }
  if (groups.size() == needed.size()) {
    name_unfinished(groups, claim);
    judge(groups, claim);
    std::vector<stacks::Trained> trained;
    double tokens = 0.0;
    for (const GroupRuns* runs : groups) {
      trained.push_back({runs->group.spec, runs->group.train});
      tokens = std::max(tokens, trained_tokens(*runs));
    }
    claim.regime = stacks::regime_of(trained);
    if (claim.verdict != judge::ClaimVerdict::holds && tokens < words.within_tokens) {
      judge::set_not_testable(claim, fmt::format("{:.2g} tokens of training: the source sees it within {:.2g}", tokens,
                                                 words.within_tokens));
    }
  }
  claims_.push_back(std::move(claim));
}

void Ledger::alike(const Words& words, const std::vector<std::string>& needed, const DifferencesReading& differences) {
  add_judged(words, needed, [&](const auto& groups, judge::SignClaim& claim) {
    const Differences found = differences(groups);
    judge::test_alike(claim, found.large, found.small);
  });
}

void Ledger::add(const Words& words, const std::vector<std::string>& needed, const TwinReading& value) {
  add_judged(words, needed, [&](const std::vector<const GroupRuns*>& groups, judge::SignClaim& claim) {
    for (std::size_t seed = 0; seed < groups.front()->cells.size(); ++seed) {
      std::vector<const training::TrainedCell*> twins;
      for (const GroupRuns* group : groups) twins.push_back(&group->cells[seed]);
      claim.values.push_back(value(twins));
    }
    judge::test_positive(claim);
  });
}

void Ledger::some_row(const Words& words, const std::vector<std::string>& needed, const TableReading& table) {
  add_judged(words, needed,
             [&](const auto& groups, judge::SignClaim& claim) { judge::test_some_row_positive(claim, table(groups)); });
}

void Ledger::spreads(const Words& words, const std::string& first, const std::string& second, double factor,
                     const Reading& reading) {
  add_judged(words, {first, second}, [&](const std::vector<const GroupRuns*>& groups, judge::SignClaim& claim) {
    std::vector<double> large, small;
    for (const training::TrainedCell& cell : groups[0]->cells) large.push_back(reading(cell));
    for (const training::TrainedCell& cell : groups[1]->cells) small.push_back(factor * reading(cell));
    judge::test_spreads_more(claim, large, small);
  });
}

void Ledger::larger(const Words& words, const std::string& first, const std::string& second, const Reading& reading) {
  add(words, {first, second}, [&](const auto& twins) { return reading(*twins[0]) - reading(*twins[1]); });
}

}  // namespace periscope::reproduce
