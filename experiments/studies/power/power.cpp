#include "experiments/studies/power/power.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/ladder.h"
#include "experiments/engine/run/stacks.h"
#include "sim/base/error.h"

namespace periscope::power {

namespace {

/// Returns `config` with only its stack `index`.
config::Config with_one_stack(const config::Config& config, std::size_t index) {
  config::Config one = config;
  one.inputs = {config.inputs[index / config.stacks_per_input()]};
  if (!config.variants.empty()) one.variants = {config.variants[index % config.stacks_per_input()]};
  one.overridden.clear();
  if (!config.overridden.empty()) one.overridden = {config.overridden[index]};
  one.base = one.stacks().front();
  return one;
}

/// `nearest` is the test nearest to rejection, or null.
ComparedStack compared_stack(const StackSpec& spec, judge::Verdict verdict, const std::string& reason,
                             const judge::Test* nearest) {
  ComparedStack stack{.placement = config::placement_label(spec),
                      .input = std::string(name_of(spec.input.kind)),
                      .verdict = verdict,
                      .reason = reason};
  if (nearest == nullptr) return stack;
  stack.nearest = fmt::format("{} {}: {}", stack.placement, stack.input, nearest->name());
  stack.excess = nearest->excess();
  stack.critical = nearest->critical;
  return stack;
}

/// A configuration, measured and predicted by the correct theory.
struct Baseline {
  config::Config config;
  std::vector<stacks::StackResult> results;
};

std::vector<ComparedStack> compare_truth(const Baseline& baseline) {
  std::vector<ComparedStack> all;
  const std::vector<judge::StackVerdict> judged = stacks::judge_stacks(baseline.config, baseline.results);
  for (std::size_t i = 0; i < judged.size(); ++i) all.push_back(compared(baseline.results[i].spec, judged[i]));
  return all;
}

std::vector<ComparedStack> compare_wrong(const WrongTheory& theory, const Baseline& baseline,
                                         stacks::Progress& progress) {
  const config::Config& overridden = theory.overridden;
  std::vector<ComparedStack> all;
  for (std::size_t i = 0; i < baseline.results.size(); ++i) {
    const StackSpec& spec = baseline.results[i].spec;
    const config::Config one = with_one_stack(overridden, i);
    const bool acts = overridden.theory.fault == theory::Fault::none ||
                      acts_on(overridden.theory.fault, one.predicted_stacks().front(), overridden.run.backward);
    if (!acts || !theory.applies_to(spec)) continue;
    std::vector<stacks::StackResult> wrong = baseline.results;
    wrong[i].prediction =
        stacks::predict_stacks(one, one.theory.finite_width.value_or(true), progress).front().prediction;
    all.push_back(compared(spec, stacks::judge_stacks(baseline.config, wrong)[i]));
  }
  if (all.empty()) all.push_back({.reason = "the fault affects none of the theory's stacks"});
  return all;
}

/// Measures a ladder again for every theory, because its sums over depth are relative to the prediction.
std::vector<ComparedStack> compare_ladder(const stacks::LadderConfig& overridden, stacks::Progress& progress) {
  const stacks::LadderResult measured = stacks::run_ladder(overridden, progress);
  std::vector<ComparedStack> all;
  for (const stacks::LadderStack& stack : measured.stacks) {
    const judge::Test* nearest = nullptr;
    for (const stacks::LadderQuantity& q : stack.quantities) {
      const judge::Test& t = q.test;
      if (t.verdict != judge::Verdict::agrees && t.verdict != stack.verdict) continue;
      if (nearest == nullptr || t.excess() / t.critical > nearest->excess() / nearest->critical) nearest = &t;
    }
    all.push_back(compared_stack(stack.spec, stack.verdict, stack.unsupported, nearest));
  }
  return all;
}

/// Returns the row with its stacks, from the cache or from `compare`.
template <class Compare>
PowerRow filled(PowerRow row, stacks::Progress& progress, const Compare& compare) {
  const std::string task = cache::task_name("row", fmt::format("{}: {}", row.config, row.theory));
  if (auto cached = stacks::find_cached<std::vector<ComparedStack>>(progress, task)) {
    row.stacks = std::move(*cached);
    return row;
  }
  progress.throw_if_stop_requested();
  row.stacks = compare();
  stacks::store(progress, task, row.stacks);
  return row;
}

/// Appends the rows of a listed configuration. Measures only if a row is not cached.
void add_rows(const PowerList& list, const PowerConfig& listed, std::vector<PowerRow>& rows,
              stacks::Progress& progress) {
  const stacks::LadderConfig& config = listed.config;
  std::optional<Baseline> measured;
  const auto baseline = [&]() -> const Baseline& {
    if (measured) return *measured;
    // NOLINTNEXTLINE(cppcoreguidelines-slicing): one width does not use the ladder's keys
    measured.emplace(Baseline{.config = config, .results = {}});
    const bool at_width = config.theory.finite_width.value_or(true);
    progress.begin(listed.name, stacks::tasks_of_stacks(config, at_width, true));
    measured->results = stacks::predict_stacks(config, at_width, progress);
    stacks::measure_stacks(config, measured->results, progress);
    return *measured;
  };
  rows.push_back(filled({.config = listed.name}, progress,
                        [&] { return listed.ladder ? compare_ladder(config, progress) : compare_truth(baseline()); }));
  for (const WrongTheory& wrong : list.theories) {
    if (wrong.config != listed.name) continue;
    const PowerRow row{.theory = wrong.name, .is_true = false, .overridden = wrong.settings, .config = listed.name};
    rows.push_back(filled(row, progress, [&] {
      return listed.ladder ? compare_ladder(wrong.overridden, progress) : compare_wrong(wrong, baseline(), progress);
    }));
    progress.say(
        fmt::format("{}: {} {}\n", listed.name, wrong.name, rows.back().rejected() ? "is rejected" : "PASSES"));
  }
}

}  // namespace

bool WrongTheory::applies_to(const StackSpec& spec) const {
  const auto holds = [](const std::vector<std::string>& words, std::string_view word) {
    return words.empty() || std::ranges::find(words, word) != words.end();
  };
  return holds(placements, config::placement_label(spec)) && holds(inputs, name_of(spec.input.kind));
}

const ComparedStack& PowerRow::clearest() const {
  return *std::ranges::max_element(stacks, {},
                                   [](const ComparedStack& s) { return std::pair(judge::disagrees(s), s.margin()); });
}

ComparedStack compared(const StackSpec& spec, const judge::StackVerdict& judged) {
  return compared_stack(spec, judged.verdict, judged.reason, judged.worst < 0 ? nullptr : &judged.worst_test());
}

config::Resolved resolved(const PowerList& list) {
  const auto of = [](const stacks::LadderConfig& config) {
    return config::resolved(config).add(stacks::ladder_section, config);
  };
  config::Resolved all = of(list.configs.front().config);
  for (const PowerConfig& c : list.configs) all.hashed["power"].push_back(of(c.config).hashed);
  for (const WrongTheory& t : list.theories) all.hashed["power"].push_back(of(t.overridden).hashed);
  for (const PowerConfig& c : list.configs) all.hashed["power"].push_back({c.name, c.ladder});
  for (const WrongTheory& t : list.theories) {
    all.hashed["power"].push_back({t.name, t.config, t.placements, t.inputs});
  }
  return all;
}

PowerResult run(const PowerList& list, stacks::Progress& progress) {
  PowerResult result{.list = list, .rows = {}};
  for (const PowerConfig& listed : list.configs) add_rows(list, listed, result.rows, progress);
  return result;
}

}  // namespace periscope::power
