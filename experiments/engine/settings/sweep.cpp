#include "experiments/engine/settings/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/toml_reader.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/recipe.h"
#include "sim/spec/stack_keys.h"

namespace periscope::config {
namespace {

constexpr double max_combinations = 1000;

std::string shortened_text(const Json& value) { return shortened(plain_text(value)); }

/// Returns the keys with lists of values, in the order of their locations.
std::vector<SweptKey> swept_keys(const Tree& tree) {
  std::vector<SweptKey> all;
  for (const char* section : {"model", "init", "input"}) {
    TomlReader reader = TomlReader(tree).table(section);
    if (reader.values() == nullptr) continue;
    for (const auto& [key, value] : reader.values()->items()) {
      SweptKey swept{.section = section, .key = key, .texts = {}, .location = {}};
      const std::string name = swept.name();
      if (!value.is_array() || name == "input.kind" || name == "model.layer_placement") continue;
      if (value.empty()) reader.fail(key, "at least one value");
      for (const Json& entry : value) swept.texts.push_back(shortened_text(entry));
      swept.location = tree.locations.at(name);
      all.push_back(std::move(swept));
    }
  }
  std::ranges::sort(all, {}, &SweptKey::location);
  return all;
}

}  // namespace

Sweep::Sweep(const Tree& tree) : keys_(swept_keys(tree)) {
  std::erase_if(keys_, [](const SweptKey& key) { return key.texts.size() == 1; });
  double count = 1.0;
  for (const SweptKey& key : keys_) {
    require_different(key.name(), key.texts);
    count *= static_cast<double>(key.texts.size());
  }
  if (count > max_combinations) {
    throw ConfigError(
        fmt::format("{}: expected at most {:g} combinations, found {:g}", names(), max_combinations, count));
  }
  combinations_ = static_cast<std::size_t>(count);
  std::size_t period = combinations_;
  for (SweptKey& key : keys_) key.period = period /= key.texts.size();
}

const SweptKey* Sweep::find(std::string_view name) const {
  const auto found = std::ranges::find(keys_, name, &SweptKey::name);
  return found == keys_.end() ? nullptr : &*found;
}

std::string Sweep::names() const { return fmt::format("{}", fmt::join(mapped(keys_, &SweptKey::name), ", ")); }

Tree Sweep::combination(std::size_t i, Tree tree) const {
  for (const SweptKey& key : swept_keys(tree)) {
    const SweptKey* measured = find(key.name());
    const std::size_t count = measured == nullptr ? 1 : measured->texts.size();
    const std::size_t values = key.texts.size();
    if (values != 1 && values != count) {
      throw ConfigError(fmt::format("--theory-set {}: expected one value{}, found {}", key.name(),
                                    count > 1 ? fmt::format(", or {} as measured", count) : ", as measured", values));
    }
    Json& list = tree.values[key.section][key.key];
    list = Json(list[values == 1 ? 0 : measured->entry(i)]);
  }
  return tree;
}

std::string Sweep::label(std::size_t i, const StackSpec& spec) const {
  const bool recipes_vary = find("model.recipe") != nullptr, placements_vary = find("model.placement") != nullptr;
  if (placements_vary && keys_.size() == 1) return {};
  std::vector<std::string> parts;
  if (recipes_vary) parts.push_back(spec.recipe);
  if (!recipes_vary || placements_vary) {
    StackSpec plain;
    plain.model.placement = spec.model.placement;
    parts.push_back(placement_label(plain));
  }
  for (const SweptKey& key : keys_) {
    if (key.name() == "model.placement" || key.name() == "model.recipe") continue;
    parts.push_back(fmt::format("{} {}", key.key, key.texts[key.entry(i)]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Candidate parse_candidate(const std::string& word) {
  if (!word.starts_with("{")) {
    const bool is_recipe = std::ranges::find(family_table(), word, &Family::name) != family_table().end();
    if (is_recipe) return {word, {"model.recipe=" + word}};
    if (find_placement(word)) return {word, {"model.placement=" + word}};
    std::vector<std::string> known;
    for (const Family& family : family_table()) known.emplace_back(family.name);
    for (const Placement& placement : placement_table()) known.emplace_back(placement.name);
    throw ConfigError(fmt::format("stack {}: expected a recipe, a placement or a table in braces{}", shortened(word),
                                  suggestion(word, known)));
  }
  Tree tree;
  tree.set("stack=" + word, "compare");
  const Json& table = tree.values["stack"];
  const auto is_part_of_placement = [](const auto& entry) {
    return std::ranges::find(placement_section.keys, entry.key(), &Key<SublayerRule>::name) !=
               placement_section.keys.end() ||
           entry.key() == "name" || entry.key() == "attention" || entry.key() == "mlp";
  };
  const auto entries = table.items();
  if (std::ranges::all_of(entries.begin(), entries.end(), is_part_of_placement)) {
    return {shortened_text(table), {"model.placement=" + word}};
  }
  Candidate candidate;
  std::vector<std::string> parts;
  const auto add = [&](const std::string& key, const Json& value) {
    candidate.settings.push_back(key + "=" + toml_text(value));
    const bool is_name = key == "model.recipe" || key == "model.placement";
    if (is_name) {
      parts.insert(parts.begin(), shortened_text(value));
    } else {
      parts.push_back(key.substr(key.find('.') + 1) + " " + shortened_text(value));
    }
  };
  for (const auto& [section, keys] : entries) {
    if (!keys.is_object() || section.find('.') != std::string::npos) {
      add(section, keys);
      continue;
    }
    for (const auto& [key, value] : keys.items()) add(section + "." + key, value);
  }
  candidate.label = fmt::format("{}", fmt::join(parts, ", "));
  return candidate;
}

void require_comparable(const std::vector<StackSpec>& stacks, const std::string& what) {
  std::map<std::string, std::string> seen;
  std::map<std::pair<InputKind, std::string>, int> labels;
  for (const StackSpec& spec : stacks) {
    const std::string label = placement_label(spec);
    if (const auto [other, is_new] = seen.emplace(json_text(resolved_json(spec, true)), label); !is_new) {
      throw ConfigError(fmt::format("{}: expected distinct stacks; \"{}\" and \"{}\" resolve to the same keys", what,
                                    other->second, label));
    }
    if (labels[{spec.input.kind, label}]++ > 0) {
      throw ConfigError(fmt::format(
          "{}: expected distinct names, as they identify results; two stacks are called \"{}\"", what, label));
    }
  }
}

void require_one_value(const Config& config, std::string_view key, std::string_view why,
                       const std::function<double(const StackSpec&)>& value) {
  const double first = value(config.base);
  for (const StackSpec& spec : config.variants) {
    if (value(spec) == first) continue;
    throw ConfigError(fmt::format("{}: expected one value, as {}; found {:g} and {:g}", key, why, first, value(spec)));
  }
}

}  // namespace periscope::config
