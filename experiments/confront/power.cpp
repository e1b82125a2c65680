#include "experiments/confront/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "experiments/common/measured_stacks.h"
#include "experiments/common/told.h"
#include "experiments/ladder/ladder.h"
#include "experiments/propagate.h"
#include "sim/spec/error.h"

namespace periscope {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string_view input_of(const StackSpec& spec) { return input_kind_names[static_cast<std::size_t>(spec.input.kind)]; }

bool is_meant(const std::vector<std::string>& words, std::string_view word) {
  return words.empty() || std::ranges::find(words, word) != words.end();
}

/// `config` with its stack `index` alone.
Config alone(const Config& config, std::size_t index) {
  Config one = config;
  const std::size_t placements = config.placements.size();
  one.inputs = {config.inputs[index / placements]};
  one.placements = {config.placements[index % placements]};
  one.told.clear();
  if (!config.told.empty()) one.told = {config.told[index]};
  one.base = one.stacks().front();
  return one;
}

/// A measured configuration and what the right theory says of it.
struct Stage {
  Config config;
  MeasuredStacks measured;
  std::vector<StackResult> truth;

  [[nodiscard]] std::vector<const theory::Prediction*> predictions() const {
    std::vector<const theory::Prediction*> all;
    for (const StackResult& result : truth) all.push_back(&result.prediction);
    return all;
  }
};

PowerRow confront_with_truth(const Stage& stage, const std::string& name, double seconds) {
  PowerRow row{.theory = "true", .is_true = true, .settings = {}, .config = name, .stacks = {}, .seconds = seconds};
  const std::vector<Agreement> agreements = judge_stacks(stage.measured, stage.predictions(), stage.config.agreement);
  for (std::size_t i = 0; i < agreements.size(); ++i) {
    row.stacks.push_back(confrontation_of(stage.measured.specs[i], agreements[i]));
  }
  return row;
}

PowerRow confront_with(const WrongTheory& theory, const Config& told, const Stage& stage) {
  const Clock::time_point start = Clock::now();
  PowerRow row{.theory = theory.name, .settings = theory.settings, .config = theory.config, .stacks = {}};
  const std::vector<const theory::Prediction*> truth = stage.predictions();
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const StackSpec& spec = stage.measured.specs[i];
    const Config one = alone(told, i);
    const bool acts = told.theory.fault == theory::Fault::none ||
                      acts_on(told.theory.fault, one.told_stacks().front(), told.run.backward);
    if (!acts || !is_meant(theory.placements, spec.model.placement.name) || !is_meant(theory.inputs, input_of(spec))) {
      continue;
    }
    const std::vector<StackResult> wrong = predict_stacks(one, one.theory.finite_width.value_or(true));
    std::vector<const theory::Prediction*> predictions = truth;
    predictions[i] = &wrong.front().prediction;
    const Agreement agreement = judge_stacks(stage.measured, predictions, stage.config.agreement)[i];
    row.stacks.push_back(confrontation_of(spec, agreement));
  }
  if (row.stacks.empty()) {
    row.stacks.push_back(
        {.placement = {}, .input = {}, .reason = "the fault acts on no stack that is meant", .by = {}});
  }
  row.seconds = seconds_since(start);
  return row;
}

/// Throws ConfigError unless a stack of the configuration is meant.
void require_meant(const WrongTheory& theory, const Config& config) {
  const bool meant = std::ranges::any_of(config.stacks(), [&](const StackSpec& spec) {
    return is_meant(theory.placements, spec.model.placement.name) && is_meant(theory.inputs, input_of(spec));
  });
  if (meant) return;
  throw ConfigError(fmt::format("theory \"{}\": no stack of config \"{}\" is meant by its placements and inputs",
                                theory.name, theory.config));
}

/// A ladder is measured anew for every theory: its sums over depth are relative to what is predicted.
PowerRow confront_ladder(const std::string& theory, const std::vector<std::string>& settings, const std::string& name,
                         const LadderConfig& told, bool quiet) {
  const Clock::time_point start = Clock::now();
  PowerRow row{.theory = theory, .is_true = settings.empty(), .settings = settings, .config = name, .stacks = {}};
  for (const LadderStack& stack : measure_ladder(told, quiet).stacks) {
    Confrontation c{.placement = placement_label(stack.spec),
                    .input = std::string(input_of(stack.spec)),
                    .verdict = stack.verdict,
                    .reason = stack.refusal,
                    .by = {}};
    for (const LadderQuantity& q : stack.quantities) {
      const bool counts = q.verdict == Verdict::agrees || q.verdict == stack.verdict;
      if (!counts || (!c.by.empty() && q.excess / q.critical <= c.margin())) continue;
      c.by = fmt::format("{} {}: {}", c.placement, c.input, q.name());
      c.excess = q.excess;
      c.critical = q.critical;
    }
    row.stacks.push_back(c);
  }
  row.seconds = seconds_since(start);
  return row;
}

}  // namespace

bool PowerRow::rejected() const {
  return std::ranges::any_of(stacks, [](const Confrontation& c) { return c.verdict == Verdict::disagrees; });
}

const Confrontation& PowerRow::clearest() const {
  return *std::ranges::max_element(
      stacks, {}, [](const Confrontation& c) { return std::pair(c.verdict == Verdict::disagrees, c.margin()); });
}

LadderConfig load_listed(const PowerConfig& config, const CommonOptions& options,
                         const std::vector<std::string>& told) {
  CommonOptions own = options;
  own.config = config.file;
  own.settings = config.settings;
  own.settings.insert(own.settings.end(), options.settings.begin(), options.settings.end());
  own.theory_settings = told;
  return own.load(ladder_section);
}

Confrontation confrontation_of(const StackSpec& spec, const Agreement& agreement) {
  Confrontation c{.placement = placement_label(spec),
                  .input = std::string(input_of(spec)),
                  .verdict = agreement.verdict,
                  .reason = agreement.reason,
                  .by = {}};
  if (agreement.worst < 0) return c;
  const Cell& worst = agreement.cells[static_cast<std::size_t>(agreement.worst)];
  c.by = fmt::format("{} {}: {}", c.placement, c.input, worst.name());
  c.excess = worst.excess();
  c.critical = agreement.critical;
  return c;
}

PowerResult measure_power(const PowerList& list, const CommonOptions& options) {
  PowerResult result{.list = list, .first = load_listed(list.configs.front(), options, {}), .rows = {}};
  // Every list entry is read before hours may be spent on the first.
  std::vector<LadderConfig> told;
  for (const WrongTheory& theory : list.theories) {
    const auto config = std::ranges::find(list.configs, theory.config, &PowerConfig::name);
    told.push_back(load_listed(*config, options, theory.settings));
    require_fault_acts(told.back());
    if (!config->ladder) require_meant(theory, load_listed(*config, options, {}));
  }
  for (const PowerConfig& listed : list.configs) {
    const auto report = [&] {
      const PowerRow& row = result.rows.back();
      if (options.quiet || row.is_true) return;
      fmt::print(stderr, "{}: {} {}\n", listed.name, row.theory, row.rejected() ? "is rejected" : "PASSES");
    };
    if (listed.ladder) {
      const LadderConfig truth = load_listed(listed, options, {});
      result.rows.push_back(confront_ladder("true", {}, listed.name, truth, options.quiet));
      for (std::size_t i = 0; i < list.theories.size(); ++i) {
        if (list.theories[i].config != listed.name) continue;
        const WrongTheory& wrong = list.theories[i];
        result.rows.push_back(confront_ladder(wrong.name, wrong.settings, listed.name, told[i], options.quiet));
        report();
      }
      continue;
    }
    Stage stage{.config = load_listed(listed, options, {}), .measured = {}, .truth = {}};
    const Clock::time_point start = Clock::now();
    stage.truth = predict_stacks(stage.config, stage.config.theory.finite_width.value_or(true));
    const double seconds = seconds_since(start);
    stage.measured = measure_stacks(stage.config, listed.name, options.quiet);
    result.rows.push_back(confront_with_truth(stage, listed.name, seconds));
    for (std::size_t i = 0; i < list.theories.size(); ++i) {
      if (list.theories[i].config != listed.name) continue;
      result.rows.push_back(confront_with(list.theories[i], told[i], stage));
      report();
    }
  }
  return result;
}

bool all_as_they_should_be(const PowerResult& result) {
  return std::ranges::all_of(result.rows, &PowerRow::as_it_should_be);
}

}  // namespace periscope
