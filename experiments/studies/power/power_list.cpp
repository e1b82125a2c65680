#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "experiments/engine/settings/theory_override.h"
#include "experiments/engine/settings/toml_reader.h"
#include "experiments/studies/power/power.h"
#include "sim/base/error.h"

namespace periscope::power {
namespace {

/// Reads a list without loading its configurations.
PowerList read_power_list(const std::string& file) {
  const config::Tree tree = config::read_tree(file);
  PowerList list{.file = file, .configs = {}, .theories = {}};
  config::TomlReader root(tree);
  for (config::TomlReader& reader : root.tables("config", "tables, as in [[config]]")) {
    PowerConfig config;
    reader.require_text("name", config.name);
    reader.require_text("file", config.file);
    config.file = (std::filesystem::path(file).parent_path() / config.file).lexically_normal().string();
    reader.read("set", config.settings);
    reader.read("ladder", config.ladder);
    reader.read("master_seeds", config.master_seeds);
    if (std::ranges::find(list.configs, config.name, &PowerConfig::name) != list.configs.end()) {
      throw ConfigError(fmt::format("{}: two [[config]] are named \"{}\": expected distinct names", file, config.name));
    }
    reader.finish();
    list.configs.push_back(config);
  }
  for (config::TomlReader& reader : root.tables("theory", "tables, as in [[theory]]")) {
    WrongTheory theory;
    reader.require_text("name", theory.name);
    reader.require_text("config", theory.config);
    reader.read("set", theory.settings);
    reader.read("placements", theory.placements);
    reader.read("inputs", theory.inputs);
    if (theory.settings.empty()) {
      throw ConfigError(fmt::format(
          "{}: theory \"{}\": expected overrides of the theory in its key \"set\", found none", file, theory.name));
    }
    if (std::ranges::find(list.configs, theory.config, &PowerConfig::name) == list.configs.end()) {
      throw ConfigError(fmt::format("{}: theory \"{}\" names the config \"{}\": expected the name of a [[config]]",
                                    file, theory.name, theory.config));
    }
    const auto same = [&](const WrongTheory& t) { return t.name == theory.name && t.config == theory.config; };
    if (theory.name == "true" || std::ranges::any_of(list.theories, same)) {
      throw ConfigError(
          fmt::format("{}: theory \"{}\" of config \"{}\": expected a name that is used only once and is not \"true\"",
                      file, theory.name, theory.config));
    }
    reader.finish();
    list.theories.push_back(theory);
  }
  root.finish();
  if (list.configs.empty()) throw ConfigError(fmt::format("{}: no [[config]]: expected at least one", file));
  return list;
}

/// Loads a listed configuration with the settings of the request and overrides of the theory.
stacks::LadderConfig load(study::Request request, const PowerConfig& listed,
                          const std::vector<std::string>& overrides) {
  request.file = listed.file;
  request.entries.insert(request.entries.begin(), listed.settings.begin(), listed.settings.end());
  request.theory_settings = overrides;
  return request.load(stacks::ladder_section);
}

}  // namespace

PowerList load_power(const study::Request& request) {
  PowerList list = read_power_list(request.file);
  for (PowerConfig& listed : list.configs) {
    listed.config = load(request, listed, {});
    if (listed.ladder) stacks::require_limit(listed.config);
  }
  for (WrongTheory& theory : list.theories) {
    const PowerConfig& listed = *std::ranges::find(list.configs, theory.config, &PowerConfig::name);
    theory.overridden = load(request, listed, theory.settings);
    config::require_effective_fault(theory.overridden);
    if (listed.ladder) {
      stacks::require_limit(theory.overridden);
    } else if (std::ranges::none_of(listed.config.stacks(), [&](const StackSpec& s) { return theory.applies_to(s); })) {
      throw ConfigError(fmt::format("theory \"{}\": its placements and inputs match no stack of config \"{}\"",
                                    theory.name, theory.config));
    }
  }
  return list;
}

}  // namespace periscope::power
