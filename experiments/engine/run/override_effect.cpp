#include "experiments/engine/run/override_effect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/engine/cache/encoding.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/run/token_ids.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"
#include "theory/norms/norm_law.h"
#include "theory/predict/predict.h"
#include "theory/width/gram_chain.h"

namespace periscope::stacks {
namespace {

/// Returns the predicted numbers that a study would compare, encoded so that NaN equals NaN.
std::string predicted_bits(const StackSpec& measured, const StackSpec& overridden, const config::Config& config,
                           theory::Fault fault, bool at_width, const Compared& compared) {
  theory::PredictionOptions options{.seed = config.run.seed, .fault = fault};
  if (config.run.backward) options.labels = {label_ids(measured, config.run.seed)};
  const std::vector<std::vector<int>> ids = distinct_token_ids(measured, config.run.seed, 1);
  Profile profile = theory::quick_profile(overridden, ids, options);
  const auto has_chain = [](const StackSpec& s) { return theory::coordinates_unsupported(s.model).empty(); };
  if (at_width && has_chain(measured) && has_chain(overridden)) {
    const std::vector<int> own = ids.empty() ? std::vector<int>() : ids.front();
    for (auto& [key, curve] : theory::gram_chain(overridden, own, {.seed = config.run.seed, .fault = fault}).curves)
      profile.curves[key] = curve;
  }
  return cache::encode(compared(profile));
}

std::string override_words(const config::Config& config, const config::PlantedFault& fault) {
  if (config.theory_settings.empty()) return fmt::format("{} = {}", fault.key, fault.name);
  const auto words = [](const std::string& setting) { return "--theory-set " + shortened(setting); };
  return fmt::format("{}", fmt::join(mapped(config.theory_settings, words), ", "));
}

}  // namespace

std::vector<double> verdict_numbers(const Profile& predicted) {
  std::vector<double> numbers;
  const auto add = [&](const Curve& curve) { numbers.insert(numbers.end(), curve.value.begin(), curve.value.end()); };
  for (const auto& [statistic, signal] : judge::compared_curves) {
    const Statistic predicted_as = statistic == Statistic::log_grad_sq ? Statistic::grad_sq : statistic;
    if (const Curve* curve = predicted.find(predicted_as, signal)) add(*curve);
  }
  for (const auto& [key, curve] : predicted.curves) {
    if (key.first == Statistic::grad_sq && std::holds_alternative<Weight>(key.second)) add(curve);
  }
  return numbers;
}

void require_change(const config::Config& config, std::string_view study, const config::PlantedFault& own,
                    const std::function<bool(const StackSpec& measured, const StackSpec& overridden)>& changes) {
  const config::PlantedFault fault = config::planted_fault(config, own);
  if (fault.key.empty() && config.theory_settings.empty()) return;
  const std::vector<StackSpec> measured = config.stacks();
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (changes(measured[i], overridden[i])) return;
  }
  const auto of_theory = [](const std::string& setting) {
    return setting.starts_with("theory.") && !setting.starts_with("theory.fault");
  };
  if (!config.theory_settings.empty() && std::ranges::all_of(config.theory_settings, of_theory)) {
    throw ConfigError(
        fmt::format("{}: expected a key of the stack, or theory.fault; use --set for other keys of theory",
                    override_words(config, fault)));
  }
  throw ConfigError(fmt::format("{}: expected an override that changes a predicted number that {} compares",
                                override_words(config, fault), study));
}

void require_effective_override(const config::Config& config, std::string_view study, bool at_width,
                                const Compared& compared) {
  require_change(config, study, {}, [&](const StackSpec& measured, const StackSpec& overridden) {
    return predicted_bits(measured, measured, config, theory::Fault::none, at_width, compared) !=
           predicted_bits(measured, overridden, config, config.theory.fault, at_width, compared);
  });
}

}  // namespace periscope::stacks
