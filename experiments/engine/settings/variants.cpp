#include "experiments/engine/settings/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/toml_reader.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::config {
namespace {

constexpr double most_combinations = 1000;

/// A value as people write it: a bare word, a named placement's name, or TOML.
std::string value_text(const toml::node& node) {
  if (const auto* word = node.as_string()) return shortened(word->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const toml::table* table = node.as_table()) {
    if (const auto* name = table->get_as<std::string>("name")) return shortened(name->get());
  }
  return toml_line(node);
}

/// Returns the keys that have lists, in their order.
std::vector<ListedKey> listed_keys(const Tree& tree) {
  std::vector<ListedKey> all;
  for (const char* section : {"model", "init", "input"}) {
    const toml::table* keys = tree.values.get_as<toml::table>(section);
    if (keys == nullptr) continue;
    for (const auto& [key, node] : *keys) {
      const std::string name = fmt::format("{}.{}", section, key.str());
      const toml::array* list = node.as_array();
      if (list == nullptr || name == "input.kind" || name == "model.layer_placement") continue;
      if (list->empty()) TomlReader(keys, section, tree.file).fail(key.str(), node, "at least one value");
      const toml::source_position& at = node.source().begin;
      ListedKey& listed = all.emplace_back(ListedKey{.name = name, .texts = {}, .order = {0, at.line, at.column}});
      for (const toml::node& value : *list) listed.texts.push_back(value_text(value));
      for (std::size_t i = 0; i < tree.settings.size(); ++i) {
        if (key_of_setting(tree.settings[i], "--set") == name) listed.order = {i + 1, 0, 0};
      }
    }
  }
  std::ranges::sort(all, {}, &ListedKey::order);
  return all;
}

}  // namespace

Lists::Lists(const Tree& tree) : keys_(listed_keys(tree)) {
  double count = 1.0;
  for (const ListedKey& key : keys_) {
    require_different(key.name, key.texts);
    count *= static_cast<double>(key.texts.size());
  }
  if (count > most_combinations) {
    throw ConfigError(
        fmt::format("{}: {:g} combinations: expected at most {:g} stacks", names(), count, most_combinations));
  }
}

std::size_t Lists::combinations() const {
  std::size_t count = 1;
  for (const ListedKey& key : keys_) count *= key.texts.size();
  return count;
}

bool Lists::varies(std::string_view name) const {
  return std::ranges::any_of(keys_, [&](const ListedKey& k) { return k.name == name && k.varies(); });
}

bool Lists::vary_more_than_placement() const {
  return std::ranges::any_of(keys_, [](const ListedKey& k) { return k.name != "model.placement" && k.varies(); });
}

std::string Lists::names() const {
  std::vector<std::string> all;
  for (const ListedKey& key : keys_) {
    if (key.varies()) all.push_back(key.name);
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

Choice Lists::choice(std::size_t i) const {
  Choice choice;
  for (std::size_t k = keys_.size(); k-- > 0;) {
    choice[keys_[k].name] = i % keys_[k].texts.size();
    i /= keys_[k].texts.size();
  }
  return choice;
}

Choice Lists::choice(std::size_t i, const Tree& overridden) const {
  const Choice measured = choice(i);
  Choice choice;
  for (const ListedKey& key : listed_keys(overridden)) {
    const auto known = std::ranges::find(keys_, key.name, &ListedKey::name);
    const std::size_t count = known == keys_.end() ? 1 : known->texts.size();
    const std::size_t values = key.texts.size();
    if (values != 1 && values != count) {
      throw ConfigError(fmt::format("--theory-set {}: {} values, expected one{}", key.name, values,
                                    count > 1 ? fmt::format(", or {} as measured", count) : ", as measured"));
    }
    choice[key.name] = values == 1 ? 0 : measured.at(key.name);
  }
  return choice;
}

std::string Lists::label(std::size_t i, const StackSpec& spec) const {
  std::vector<std::string> parts;
  if (varies("model.recipe")) parts.push_back(spec.recipe);
  if (!varies("model.recipe") || varies("model.placement")) {
    StackSpec plain;
    plain.model.placement = spec.model.placement;
    parts.push_back(placement_label(plain));
  }
  const Choice chosen = choice(i);
  for (const ListedKey& key : keys_) {
    const bool is_named = key.name == "model.placement" || key.name == "model.recipe";
    if (is_named || !key.varies()) continue;
    parts.push_back(fmt::format("{} {}", key.name.substr(key.name.find('.') + 1), key.texts[chosen.at(key.name)]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void Lists::require_comparable(const std::vector<StackSpec>& stacks) const {
  std::map<std::string, std::string> seen;
  std::map<std::pair<InputKind, std::string>, int> labels;
  for (const StackSpec& spec : stacks) {
    const std::string label = placement_label(spec);
    if (spec.model.layers != stacks.front().model.layers) {
      throw ConfigError(
          fmt::format("{}: stacks with model.layers = {} and {}: expected the same in all, as curves over depth share "
                      "one axis of the result",
                      names(), stacks.front().model.layers, spec.model.layers));
    }
    if (const auto [other, is_new] = seen.emplace(json_text(resolved_json(spec, true)), label); !is_new) {
      throw ConfigError(
          fmt::format("{}: \"{}\" and \"{}\" make the same stack, every key is equal: expected different ones", names(),
                      other->second, label));
    }
    if (labels[{spec.input.kind, label}]++ > 0) {
      throw ConfigError(fmt::format(
          "{}: two stacks are called \"{}\": expected different names, as results are found by them", names(), label));
    }
  }
}

void require_one_value(const Config& config, std::string_view key, std::string_view why,
                       const std::function<double(const StackSpec&)>& value) {
  const double first = value(config.base);
  for (const StackSpec& spec : config.variants) {
    if (value(spec) == first) continue;
    throw ConfigError(fmt::format("{}: {:g} and {:g}: expected one value, as {}", key, first, value(spec), why));
  }
}

}  // namespace periscope::config
