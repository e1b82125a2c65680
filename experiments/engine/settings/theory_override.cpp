#include "experiments/engine/settings/theory_override.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/settings/sweep.h"
#include "sim/base/error.h"

namespace periscope::config {
PlantedFault planted_fault(const Config& config, const PlantedFault& own) {
  if (!own.key.empty()) return own;
  const bool planted = config.theory.fault != theory::Fault::none;
  return {planted ? "theory.fault" : "", theory::fault_names[static_cast<std::size_t>(config.theory.fault)],
          meaning_of(config.theory.fault)};
}

Json override_differences(const Config& config, bool for_hash) {
  Json all = Json::array();
  const std::vector<StackSpec> measured = config.stacks();
  for (std::size_t i = 0; i < config.overridden.size(); ++i) {
    const Json own = flat_json(measured[i], for_hash);
    const Json overridden = flat_json(config.overridden[i], for_hash);
    Json stack = Json::object();
    for (const auto& [key, value] : own.items()) {
      const Json assumed = overridden.value(key, Json());
      if (value != assumed) stack[key] = {{"measured", value}, {"assumed", assumed}};
    }
    all.push_back(stack);
  }
  return all;
}

Json override_json(const Config& config, const PlantedFault& own) {
  const PlantedFault fault = planted_fault(config, own);
  if (fault.key.empty() && config.theory_settings.empty()) return nullptr;
  return {{"set", config.theory_settings},
          {"fault", fault.name},
          {"meaning", fault.meaning},
          {"differences", override_differences(config)}};
}

std::string override_lines(const Config& config, const PlantedFault& own) {
  const PlantedFault fault = planted_fault(config, own);
  std::string lines = fault.key.empty() ? ""
                                        : fmt::format("PLANTED FAULT: the theory is deliberately wrong ({} = {}: {})\n",
                                                      fault.key, fault.name, fault.meaning);
  if (config.overridden.empty()) return lines;
  Json all = Json::object();  // a difference shared by several stacks is listed once
  for (const Json& stack : override_differences(config)) all.update(stack);
  std::vector<std::string> words;
  for (const auto& [key, values] : all.items()) {
    words.push_back(
        key == "model.placement" && config.variants.size() > 1
            ? "other placements"
            : fmt::format("{} = {} (measured: {})", key, json_text(values["assumed"]), json_text(values["measured"])));
  }
  return words.empty() ? lines : fmt::format("{}THEORY OVERRIDE: {}\n", lines, fmt::join(words, ", "));
}

void require_effective_fault(const Config& config) {
  const theory::Fault fault = config.theory.fault;
  const auto acts = [&](const StackSpec& spec) { return theory::acts_on(fault, spec, config.run.backward); };
  if (fault == theory::Fault::none || std::ranges::any_of(config.predicted_stacks(), acts)) return;
  throw ConfigError(fmt::format("theory.fault = \"{}\": expected {}", planted_fault(config).name,
                                fault == theory::Fault::depth_constant
                                    ? "a placement with constants that depend on depth, such as deepnorm or lns"
                                    : "run.backward = true, as the fault changes only gradients"));
}

void require_swept_is_one_value(const Config& config, std::string_view key, std::string_view by,
                                const std::function<double(const StackSpec&)>& value) {
  const std::vector<StackSpec> measured = config.stacks();
  require_one_value(config, key, fmt::format("{} sweeps it", by), value);
  for (std::size_t i = 0; i < config.overridden.size(); ++i) {
    const double overridden = value(config.overridden[i]);
    if (overridden == value(measured[i])) continue;
    throw ConfigError(fmt::format("--theory-set {} = {:g}: expected the measured value {:g}, as {} sweeps it", key,
                                  overridden, value(measured[i]), by));
  }
}

}  // namespace periscope::config
