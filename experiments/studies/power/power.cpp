#include "experiments/studies/power/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/ladder.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/settings/theory_override.h"
#include "sim/base/error.h"

namespace periscope::power {

static auto parts(Confrontation& c) {
  return std::tie(c.placement, c.input, c.verdict, c.reason, c.by, c.excess, c.critical);
}

namespace {

/// Adds up how long the functions take that it is told to call.
class Stopwatch {
 public:
  template <class F>
  auto time(const F& f) {
    const Clock::time_point start = Clock::now();
    auto result = f();
    seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
    return result;
  }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_ = 0.0;
};

std::string_view input_of(const StackSpec& spec) { return input_kind_names[static_cast<std::size_t>(spec.input.kind)]; }

bool is_meant(const std::vector<std::string>& words, std::string_view word) {
  return words.empty() || std::ranges::find(words, word) != words.end();
}

/// `config` with its stack `index` alone.
config::Config alone(const config::Config& config, std::size_t index) {
  config::Config one = config;
  one.inputs = {config.inputs[index / config.stacks_per_input()]};
  if (!config.variants.empty()) one.variants = {config.variants[index % config.stacks_per_input()]};
  one.overridden.clear();
  if (!config.overridden.empty()) one.overridden = {config.overridden[index]};
  one.base = one.stacks().front();
  return one;
}

/// `worst`: the test nearest to rejection, or null.
Confrontation confrontation(const StackSpec& spec, judge::Verdict verdict, const std::string& reason,
                            const judge::Test* worst) {
  Confrontation c{.placement = config::placement_label(spec),
                  .input = std::string(input_of(spec)),
                  .verdict = verdict,
                  .reason = reason,
                  .by = {}};
  if (worst == nullptr) return c;
  c.by = fmt::format("{} {}: {}", c.placement, c.input, worst->name());
  c.excess = worst->excess();
  c.critical = worst->critical;
  return c;
}

/// A measured configuration and what the right theory says of it.
struct Stage {
  config::Config config;
  stacks::MeasuredStacks measured;
  std::vector<stacks::StackResult> truth;

  [[nodiscard]] std::vector<const theory::Prediction*> predictions() const {
    std::vector<const theory::Prediction*> all;
    for (const stacks::StackResult& result : truth) all.push_back(&result.prediction);
    return all;
  }
};

PowerRow confront_with_truth(const Stage& stage, const std::string& name) {
  PowerRow row{.theory = "true", .is_true = true, .settings = {}, .config = name, .stacks = {}};
  const std::vector<judge::StackVerdict> judged =
      stacks::judge_stacks(stage.measured, stage.predictions(), stage.config.agreement);
  for (std::size_t i = 0; i < judged.size(); ++i) {
    row.stacks.push_back(confrontation_of(stage.measured.specs[i], judged[i]));
  }
  return row;
}

PowerRow confront_with(const WrongTheory& theory, const config::Config& overridden, const Stage& stage,
                       stacks::Progress& progress) {
  PowerRow row{.theory = theory.name, .settings = theory.settings, .config = theory.config, .stacks = {}};
  const std::vector<const theory::Prediction*> truth = stage.predictions();
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const StackSpec& spec = stage.measured.specs[i];
    const config::Config one = alone(overridden, i);
    const bool acts = overridden.theory.fault == theory::Fault::none ||
                      acts_on(overridden.theory.fault, one.predicted_stacks().front(), overridden.run.backward);
    if (!acts || !is_meant(theory.placements, config::placement_label(spec)) ||
        !is_meant(theory.inputs, input_of(spec))) {
      continue;
    }
    const std::vector<stacks::StackResult> wrong =
        stacks::predict_stacks(one, one.theory.finite_width.value_or(true), progress);
    std::vector<const theory::Prediction*> predictions = truth;
    predictions[i] = &wrong.front().prediction;
    row.stacks.push_back(
        confrontation_of(spec, stacks::judge_stacks(stage.measured, predictions, stage.config.agreement)[i]));
  }
  if (row.stacks.empty()) {
    row.stacks.push_back(
        {.placement = {}, .input = {}, .reason = "the fault acts on no stack that is meant", .by = {}});
  }
  return row;
}

/// Throws ConfigError unless a stack of the configuration is meant.
void require_meant(const WrongTheory& theory, const config::Config& config) {
  const bool meant = std::ranges::any_of(config.stacks(), [&](const StackSpec& spec) {
    return is_meant(theory.placements, config::placement_label(spec)) && is_meant(theory.inputs, input_of(spec));
  });
  if (meant) return;
  throw ConfigError(fmt::format("theory \"{}\": no stack of config \"{}\" is meant by its placements and inputs",
                                theory.name, theory.config));
}

/// A ladder is measured anew for every theory: its sums over depth are relative to what is predicted.
PowerRow confront_ladder(const std::string& theory, const std::vector<std::string>& settings, const std::string& name,
                         const stacks::LadderConfig& overridden, stacks::Progress& progress) {
  PowerRow row{.theory = theory, .is_true = settings.empty(), .settings = settings, .config = name, .stacks = {}};
  const stacks::LadderResult measured = stacks::run_ladder(overridden, progress);
  if (measured.stopped_early) throw stacks::Stopped();
  for (const stacks::LadderStack& stack : measured.stacks) {
    const judge::Test* worst = nullptr;
    for (const stacks::LadderQuantity& q : stack.quantities) {
      const judge::Test& t = q.test;
      if (t.verdict != judge::Verdict::agrees && t.verdict != stack.verdict) continue;
      if (worst == nullptr || t.excess() / t.critical > worst->excess() / worst->critical) worst = &t;
    }
    row.stacks.push_back(confrontation(stack.spec, stack.verdict, stack.refusal, worst));
  }
  return row;
}

/// Returns the stacks of the cached row, or else those of `confront`.
template <class Confront>
PowerRow cached_or(PowerRow row, stacks::Progress& progress, const Confront& confront) {
  const std::string task = cache::task_name("row", fmt::format("{}: {}", row.config, row.theory));
  if (auto stacks = stacks::find_cached<std::vector<Confrontation>>(progress, task)) {
    row.stacks = std::move(*stacks);
    return row;
  }
  progress.throw_if_stop_requested();
  row = confront();
  stacks::store(progress, task, cache::encode(row.stacks));
  return row;
}

}  // namespace

bool PowerRow::rejected() const {
  return std::ranges::any_of(stacks, [](const Confrontation& c) { return c.verdict == judge::Verdict::disagrees; });
}

const Confrontation& PowerRow::clearest() const {
  return *std::ranges::max_element(
      stacks, {}, [](const Confrontation& c) { return std::pair(c.verdict == judge::Verdict::disagrees, c.margin()); });
}

Confrontation confrontation_of(const StackSpec& spec, const judge::StackVerdict& judged) {
  return confrontation(spec, judged.verdict, judged.reason, judged.worst < 0 ? nullptr : &judged.worst_test());
}

PowerRun load_power(const std::string& file, const LoadListed& load) {
  PowerRun run{.list = read_power_list(file), .configs = {}, .overridden = {}};
  for (const PowerConfig& config : run.list.configs) run.configs.push_back(load(config, {}));
  for (const WrongTheory& theory : run.list.theories) {
    const auto config = std::ranges::find(run.list.configs, theory.config, &PowerConfig::name);
    run.overridden.push_back(load(*config, theory.settings));
    config::require_fault_acts(run.overridden.back());
    const auto index = static_cast<std::size_t>(config - run.list.configs.begin());
    config->ladder ? stacks::require_limit(run.overridden.back()) : require_meant(theory, run.configs[index]);
  }
  for (std::size_t i = 0; i < run.configs.size(); ++i) {
    if (run.list.configs[i].ladder) stacks::require_limit(run.configs[i]);
  }
  return run;
}

config::Resolved resolved(const PowerRun& run) {
  const auto of = [](const stacks::LadderConfig& config) {
    return config::resolved(config).add(stacks::ladder_section, config);
  };
  config::Resolved all = of(run.configs.front());
  for (const auto* configs : {&run.configs, &run.overridden}) {
    for (const stacks::LadderConfig& config : *configs) all.hashed["power"].push_back(of(config).hashed);
  }
  for (const PowerConfig& c : run.list.configs) all.hashed["power"].push_back({c.name, c.ladder});
  for (const WrongTheory& t : run.list.theories) {
    all.hashed["power"].push_back({t.name, t.config, t.placements, t.inputs});
  }
  return all;
}

PowerResult run(const PowerRun& run, stacks::Progress& progress) {
  const PowerList& list = run.list;
  PowerResult result{.list = list, .familywise_error = run.configs.front().agreement.familywise_error, .rows = {}};
  const auto measure_config = [&](std::size_t index) {
    const PowerConfig& listed = list.configs[index];
    const stacks::LadderConfig& config = run.configs[index];
    Stopwatch theory;
    // Nothing is measured before a row comes that is not cached.
    std::optional<Stage> measured;
    const auto stage = [&]() -> const Stage& {
      if (measured) return *measured;
      // NOLINTNEXTLINE(cppcoreguidelines-slicing): the ladder's own keys are of no use to one width
      measured.emplace(Stage{.config = config, .measured = {}, .truth = {}});
      const bool at_width = config.theory.finite_width.value_or(true);
      progress.begin(listed.name, stacks::tasks_of_stacks(config, at_width, true));
      measured->truth = theory.time([&] { return stacks::predict_stacks(config, at_width, progress); });
      measured->measured = stacks::measure_stacks(config, progress);
      return *measured;
    };
    const auto along_ladder = [&](const std::string& name, const std::vector<std::string>& settings,
                                  const stacks::LadderConfig& overridden) {
      return theory.time([&] { return confront_ladder(name, settings, listed.name, overridden, progress); });
    };
    const PowerRow truth{.theory = "true", .is_true = true, .settings = {}, .config = listed.name, .stacks = {}};
    result.rows.push_back(cached_or(truth, progress, [&] {
      return listed.ladder ? along_ladder("true", {}, config) : confront_with_truth(stage(), listed.name);
    }));
    for (std::size_t i = 0; i < list.theories.size(); ++i) {
      const WrongTheory& wrong = list.theories[i];
      if (wrong.config != listed.name) continue;
      const PowerRow row{.theory = wrong.name, .settings = wrong.settings, .config = listed.name, .stacks = {}};
      result.rows.push_back(cached_or(row, progress, [&] {
        if (listed.ladder) return along_ladder(wrong.name, wrong.settings, run.overridden[i]);
        const Stage& now = stage();
        return theory.time([&] { return confront_with(wrong, run.overridden[i], now, progress); });
      }));
      progress.say(fmt::format("{}: {} {}\n", listed.name, wrong.name,
                               result.rows.back().rejected() ? "is rejected" : "PASSES"));
    }
    if (theory.seconds() > 0.0) {
      progress.say(fmt::format("{}: {} took {:.1f} s\n", listed.name, listed.ladder ? "ladders" : "predictions",
                               theory.seconds()));
    }
  };
  result.stopped_early = stacks::until_stopped([&] {
    for (std::size_t i = 0; i < list.configs.size(); ++i) measure_config(i);
  });
  return result;
}

bool all_as_they_should_be(const PowerResult& result) {
  return std::ranges::all_of(result.rows, &PowerRow::as_it_should_be);
}

}  // namespace periscope::power
