#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/engine/settings/toml_reader.h"
#include "sim/base/key.h"
#include "sim/spec/read_keys.h"

/// Functions that read, validate, print and list the keys of a section from its table of keys (sim/base/key.h).
namespace periscope::config {

Json placement_json(const Placement& placement);     ///< the name, or the table of a custom placement
Json layer_placements_json(const ModelSpec& model);  ///< in the form of model.layer_placement

template <class S>
void read_section(TomlReader root, const Section<S>& section, S& values) {
  TomlReader reader = root.table(section.name);
  read_keys(reader, section, values);
}

/// Returns the value of a key; null for an unset optional.
template <class S>
Json value_json(const Key<S>& key, const S& values) {
  return std::visit(
      [&](const auto& field) -> Json {
        using F = std::remove_cvref_t<decltype(field)>;
        if constexpr (std::is_same_v<F, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<F, WordField<S>>) {
          return field.get(values);
        } else if constexpr (requires { *(values.*field); }) {  // an optional
          return values.*field ? Json(*(values.*field)) : nullptr;
        } else if constexpr (std::is_same_v<F, Placement S::*>) {
          return placement_json(values.*field);
        } else if constexpr (std::is_same_v<F, DepthExpression S::*>) {
          const DepthExpression& e = values.*field;
          return e.number() ? Json(*e.number()) : Json(e.text());
        } else {
          return values.*field;
        }
      },
      key.field);
}

/// Returns the keys that can change a result, with their values, in the order of the table.
template <class S>
Json section_json(const Section<S>& section, const S& values) {
  Json json = Json::object();
  for (const Key<S>& key : section.keys) {
    if (key.effect == Effect::none || std::holds_alternative<std::monostate>(key.field)) continue;
    json[std::string(key.name)] = value_json(key, values);
  }
  return json;
}

template <class T>
std::string type_words(const T& /*value*/) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::optional<bool>>) return "flag";
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>) return "number";
  if constexpr (std::is_integral_v<T>) return "whole number";
  if constexpr (std::is_same_v<T, Placement>) return "placement";
  if constexpr (std::is_same_v<T, DepthExpression>) return "number or text";
  return "text";
}
template <class T>
std::string type_words(const std::vector<T>& /*values*/) {
  return "list of " + type_words(T());
}

/// Returns the type of a key's values: "whole number", "number", "flag", "text", "number or text", a list of one of the
/// first four ("list of number"), "placement", "list of table"; "" for a name that sets other keys.
template <class S>
std::string type_of(const Key<S>& key) {
  if (key.tables) return "list of table";
  return std::visit(
      [](const auto& field) -> std::string {
        using F = std::remove_cvref_t<decltype(field)>;
        if constexpr (std::is_same_v<F, std::monostate>) return "";
        if constexpr (std::is_same_v<F, WordField<S>>) return "text";
        if constexpr (std::is_member_pointer_v<F>) return type_words(S().*field);
      },
      key.field);
}

/// A type-erased section, whose keys can be listed and validated.
struct AnySection {
  std::string name;
  /// Keys as shown by `periscope list`: {name: "model.width", default: in TOML, unit: "" unless a number, meaning,
  /// type: see type_of, choices: valid words, swept: true if a list is valid too}.
  Json keys;
  std::function<void(TomlReader&)> check;  ///< throws ConfigError for a wrong type and for a number out of range
};

template <class S>
AnySection any_section(const Section<S>& section) {
  AnySection any{.name = std::string(section.name), .keys = Json::array(), .check = [&section](TomlReader& reader) {
                   S values;
                   read_keys(reader, section, values);
                   require_ranges(section, values);
                 }};
  const S defaults;
  for (const Key<S>& key : section.keys) {
    const Json value = value_json(key, defaults);
    std::vector<std::string_view> choices;
    if (const auto* words = std::get_if<WordField<S>>(&key.field)) {
      choices.assign(words->names.begin(), words->names.end());
    }
    any.keys.push_back(
        {{"name", fmt::format("{}.{}", section.name, key.name)},
         {"default", key.default_text.empty() ? toml_text(value) : std::string(key.default_text)},
         {"unit", value.is_number() ? key.unit : ""},
         {"meaning", key.meaning.empty() ? fmt::format("{}", fmt::join(choices, ", ")) : std::string(key.meaning)},
         {"type", type_of(key)},
         {"choices", choices},
         {"swept", key.swept}});
  }
  return any;
}

}  // namespace periscope::config
