#include "experiments/engine/settings/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/setting.h"
#include "experiments/engine/settings/toml_reader.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::config {
namespace {

constexpr std::array<std::string_view, 3> tables_of_stacks{"model", "init", "input"};
constexpr std::array<std::string_view, 3> tables_of_runs{"run", "theory", "agreement"};
constexpr double most_combinations = 1000;

/// A value as people write it: a bare word, a named placement's name, or TOML.
std::string value_text(const toml::node& node) {
  if (const auto* word = node.as_string()) return shortened(word->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const toml::table* table = node.as_table()) {
    if (const auto* name = table->get_as<std::string>("name")) return shortened(name->get());
  }
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  std::string line = text.str();
  std::ranges::replace(line, '\n', ' ');
  return shortened(line);
}

/// A key's place in the order of all keys: first the file's keys by line and column, then those of settings, each by
/// the last setting that names it.
using Order = std::tuple<std::size_t, std::size_t, std::size_t>;
Order order_of(const std::string& name, const toml::node& node, const std::vector<std::string>& settings) {
  for (std::size_t i = settings.size(); i-- > 0;) {
    if (key_of_setting(settings[i], "--set") == name) return {i + 1, 0, 0};
  }
  return {0, node.source().begin.line, node.source().begin.column};
}

void refuse_lists_of_runs(const toml::table& table, const std::string& file) {
  for (const std::string_view section : tables_of_runs) {
    const toml::table* keys = table.get_as<toml::table>(section);
    if (keys == nullptr) continue;
    for (const auto& [key, node] : *keys) {
      if (!node.is_array()) continue;
      TomlReader(keys, std::string(section), file)
          .fail(key.str(), node,
                fmt::format("one value: only keys of model, init and input take lists, as all stacks of a run share "
                            "its [{}]",
                            section));
    }
  }
}

/// Calls `visit` with the section, the key and the list of every key that has one.
template <class Table, class Visit>
void visit_lists(Table& table, const Visit& visit) {
  for (const std::string_view section : tables_of_stacks) {
    auto* keys = table.template get_as<toml::table>(section);
    if (keys == nullptr) continue;
    std::vector<std::string> names;
    for (const auto& [key, node] : *keys) {
      const bool is_one_value = section == "input" ? key.str() == "kind" : key.str() == "layer_placement";
      if (node.is_array() && !is_one_value) names.emplace_back(key.str());
    }
    for (const std::string& name : names) visit(section, *keys, name, *keys->get(name)->as_array());
  }
}

/// Puts an entry of the list of `key` in its place.
void choose(toml::table& section, const std::string& key, std::size_t i) {
  toml::array list = std::move(*section.get_as<toml::array>(key));
  section.insert_or_assign(key, std::move(*list.get(i)));
}

std::string key_in_section(const std::string& name) { return name.substr(name.find('.') + 1); }

}  // namespace

Lists::Lists(const std::string& file, const std::vector<std::string>& settings)
    : file_(file), text_(config_text(file)), settings_(settings) {
  const toml::table table = parse_table(text_, file, settings);
  refuse_lists_of_runs(table, file);
  std::map<std::string, Order> order;
  visit_lists(table,
              [&](std::string_view section, const toml::table& keys, const std::string& key, const toml::array& list) {
                ListedKey listed{.name = fmt::format("{}.{}", section, key), .texts = {}};
                if (list.empty()) TomlReader(&keys, std::string(section), file).fail(key, list, "at least one value");
                for (const toml::node& value : list) listed.texts.push_back(value_text(value));
                require_different(listed.name, listed.texts);
                order[listed.name] = order_of(listed.name, list, settings);
                keys_.push_back(std::move(listed));
              });
  std::ranges::sort(keys_, {}, [&](const ListedKey& key) { return order.at(key.name); });
  double count = 1.0;
  for (const ListedKey& key : keys_) count *= static_cast<double>(key.texts.size());
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
  return std::ranges::any_of(keys_, [&](const ListedKey& k) { return k.name == name && k.texts.size() > 1; });
}

bool Lists::vary_more_than_placement() const {
  return std::ranges::any_of(keys_,
                             [](const ListedKey& k) { return k.name != "model.placement" && k.texts.size() > 1; });
}

std::vector<std::size_t> Lists::places(std::size_t i) const {
  std::vector<std::size_t> at(keys_.size());
  for (std::size_t k = keys_.size(); k-- > 0;) {
    at[k] = i % keys_[k].texts.size();
    i /= keys_[k].texts.size();
  }
  return at;
}

std::string Lists::names() const {
  std::vector<std::string> all;
  for (const ListedKey& key : keys_) {
    if (key.texts.size() > 1) all.push_back(key.name);
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

toml::table Lists::table(std::size_t i) const {
  toml::table table = parse_table(text_, file_, settings_);  // copies of its nodes would not know their lines
  const std::vector<std::size_t> at = places(i);
  visit_lists(table, [&](std::string_view section, toml::table& keys, const std::string& key, const toml::array&) {
    const auto listed = std::ranges::find(keys_, fmt::format("{}.{}", section, key), &ListedKey::name);
    choose(keys, key, at[static_cast<std::size_t>(listed - keys_.begin())]);
  });
  return table;
}

toml::table Lists::overridden(std::size_t i, const std::vector<std::string>& theory_settings) const {
  toml::table overridden = table(i);
  for (const std::string& setting : theory_settings) apply_setting(overridden, setting, "--theory-set");
  const std::vector<std::size_t> at = places(i);
  visit_lists(
      overridden, [&](std::string_view section, toml::table& keys, const std::string& key, const toml::array& list) {
        const std::string name = fmt::format("{}.{}", section, key);
        const auto measured = std::ranges::find(keys_, name, &ListedKey::name);
        const std::size_t count = measured == keys_.end() ? 1 : measured->texts.size();
        if (list.size() == 1) return choose(keys, key, 0);
        if (list.size() != count) {
          throw ConfigError(fmt::format("--theory-set {}: {} values, expected one{}", name, list.size(),
                                        count > 1 ? fmt::format(", or {} as measured", count) : ", as measured"));
        }
        choose(keys, key, at[static_cast<std::size_t>(measured - keys_.begin())]);
      });
  return overridden;
}

std::string Lists::label(std::size_t i, const StackSpec& spec) const {
  std::vector<std::string> parts;
  if (varies("model.recipe")) parts.push_back(spec.recipe);
  if (!varies("model.recipe") || varies("model.placement")) {
    StackSpec plain;
    plain.model.placement = spec.model.placement;
    parts.push_back(placement_label(plain));
  }
  const std::vector<std::size_t> at = places(i);
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    const bool is_named = keys_[k].name == "model.placement" || keys_[k].name == "model.recipe";
    if (is_named || keys_[k].texts.size() == 1) continue;
    parts.push_back(fmt::format("{} {}", key_in_section(keys_[k].name), keys_[k].texts[at[k]]));
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
