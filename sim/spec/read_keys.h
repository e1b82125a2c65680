#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/key.h"
#include "sim/base/parse_integer.h"
#include "sim/spec/model_spec.h"

/// Functions that read keys of a configuration file, or of config.json in Periscope's own checkpoints. A `Reader` reads
/// one table; its fail() throws an error with file, key, found value and expected value.
namespace periscope {

/// Reads a JSON value into `target`. Returns "" on success, else a description of the expected value.
template <class Json>
std::string take(const Json& value, int& target) {
  if (!value.is_number_integer()) return "a whole number";
  const auto whole = value.template get<std::int64_t>();
  if (whole != static_cast<int>(whole)) return "a 32-bit whole number";
  target = static_cast<int>(whole);
  return {};
}

template <class Json>
std::string take(const Json& value, std::uint64_t& target) {
  if (!value.is_number_integer() || value.template get<std::int64_t>() < 0) return "a whole number of at least 0";
  target = value.template get<std::uint64_t>();
  return {};
}

template <class Json>
std::string take(const Json& value, double& target) {
  if (!value.is_number()) return "a number";
  target = value.template get<double>();
  return {};
}

template <class Json>
std::string take(const Json& value, bool& target) {
  if (!value.is_boolean()) return "true or false";
  target = value.template get<bool>();
  return {};
}

template <class Json>
std::string take(const Json& value, std::string& target) {
  if (!value.is_string()) return "a string";
  // Strings may be file names, which U+0000 would truncate.
  const auto& text = value.template get_ref<const std::string&>();
  if (text.find('\0') != std::string::npos) return "a string without the character U+0000";
  target = text;
  return {};
}

template <class Json>
std::string take(const Json& value, DepthExpression& target) {
  const auto expression = value.is_number()   ? DepthExpression(value.template get<double>())
                          : value.is_string() ? DepthExpression::parse(value.template get<std::string>())
                                              : std::nullopt;
  if (!expression) {
    return "a number, or an expression in L (layers) and l (earlier additions), such as \"2L\" or \"1/sqrt(l+1)\"";
  }
  target = *expression;
  return {};
}

template <class Json, class T>
std::string take(const Json& value, std::optional<T>& target) {
  return take(value, target.emplace());
}

template <class Json, class T>
std::string take(const Json& value, std::vector<T>& target) {
  constexpr bool words = std::is_same_v<T, std::string>;
  const std::string expected = fmt::format("a list of {}", words ? "strings without the character U+0000"
                                                           : std::is_same_v<T, int> ? "whole numbers"
                                                                                    : "numbers");
  if (!value.is_array() || (value.empty() && !words)) return expected;
  target.clear();
  for (const Json& entry : value) {
    if (!take(entry, target.emplace_back()).empty()) return expected;
  }
  return {};
}

/// Returns the index of the row named `word`. If no row has this name, throws an error that lists the known names.
template <class Reader, class Rows, class Name = std::identity>
std::size_t index_of(const Reader& reader, std::string_view key, const std::string& word, const Rows& rows,
                     Name name = {}) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(std::invoke(name, row));
  const auto it = std::ranges::find(names, word);
  if (it == names.end()) {
    reader.fail(key, fmt::format("one of {}{}", fmt::join(names, ", "), suggestion(word, names)));
  }
  return static_cast<std::size_t>(it - names.begin());
}

/// Reads the keys of `section`. Swept keys may be lists, so they are not read here, only marked as known.
template <class Reader, class S>
void read_keys(Reader& reader, const Section<S>& section, S& values) {
  for (const Key<S>& key : section.keys) {
    std::visit(
        [&](const auto& field) {
          using F = std::remove_cvref_t<decltype(field)>;
          if (key.swept || std::is_same_v<F, std::monostate>) {
            reader.find(key.name);
          } else if constexpr (std::is_same_v<F, WordField<S>>) {
            std::string word;
            if (!reader.read(key.name, word)) return;
            if (!field.names.empty()) static_cast<void>(index_of(reader, key.name, word, field.names));
            field.set(values, word);
          } else if constexpr (std::is_member_pointer_v<F> && !std::is_same_v<F, Placement S::*>) {
            reader.read(key.name, values.*field);
          }
        },
        key.field);
  }
}

/// Reads the name of a free form. Only ASCII is allowed: a Cyrillic р could make it look like a known name.
template <class Reader>
std::string read_placement_name(Reader& reader) {
  std::string name(unnamed_placement);
  if (!reader.read("name", name)) return name;
  const bool is_ascii = std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
  const bool fits = is_ascii && !name.empty() && name.size() <= 40 && name.front() != ' ' && name.back() != ' ';
  if (!fits || name == unnamed_placement || find_placement(name)) {
    reader.fail("name",
                "a name of 1 to 40 printable ASCII characters, without a space at either end, that is not a "
                "placement's name");
  }
  return name;
}

/// Reads alpha or beta: a number, or an expression in L and l.
template <class Reader>
void read_scale(Reader& reader, std::string_view key, double& number, std::optional<DepthExpression>& expression) {
  DepthExpression scale = number;
  reader.read(key, scale);
  if (const auto constant = scale.number()) {
    number = *constant;
    if (!std::isfinite(number)) reader.fail(key, "a finite number");
  } else {
    expression = scale;
  }
}

/// Reads a placement: a name, a table {name, A, B, C, alpha, beta} or, unless `of_module`, {name, attention, mlp}.
template <class Reader>
Placement read_placement(Reader& reader, std::string_view key = "placement", bool of_module = false);

/// Reads a placement that applies only to some modules or layers of a stack.
template <class Reader>
Placement read_part(Reader& reader, std::string_view key, bool of_module) {
  Placement part = read_placement(reader, key, of_module);
  if (part.sets_only_rules()) return part;
  std::vector<std::string_view> names;
  for (const Placement& p : placement_table()) {
    if (p.sets_only_rules()) names.push_back(p.name);
  }
  reader.fail(key,
              fmt::format("a table {{A, B, C, alpha, beta}} or one of {}, because {} sets more than sublayer rules",
                          fmt::join(names, ", "), part.name));
}

template <class Reader>
Placement read_placement(Reader& reader, std::string_view key, bool of_module) {
  const auto* value = reader.find(key);
  if (value != nullptr && value->is_string()) {
    const auto word = value->template get<std::string>();
    if (const std::optional<Placement> known = find_placement(word)) return *known;
    return placement_table()[index_of(reader, key, word, placement_table(), &Placement::name)];
  }
  const bool is_table = value != nullptr && value->is_object();
  const bool is_by_kind = is_table && (value->contains("attention") || value->contains("mlp"));
  if (!is_table || (is_by_kind && of_module)) {
    reader.fail(key,
                fmt::format("a name, or a table {{A, B, C, alpha, beta}}{}", of_module ? "" : " or {attention, mlp}"));
  }
  Reader table = reader.table(key);
  FreeForm form;
  if (is_by_kind) {
    form.attention = std::make_shared<const Placement>(read_part(table, "attention", true));
    form.mlp = std::make_shared<const Placement>(read_part(table, "mlp", true));
  } else {
    for (const auto& [name, flag] :
         {std::pair{"A", &SublayerRule::norm_a}, {"B", &SublayerRule::norm_b}, {"C", &SublayerRule::norm_c}}) {
      table.read(name, form.rule.*flag);
    }
    read_scale(table, "alpha", form.rule.alpha, form.alpha);
    read_scale(table, "beta", form.rule.beta, form.beta);
  }
  const std::string name = read_placement_name(table);
  table.finish();
  return free_placement(std::move(form), name);
}

/// Reads model.layer_placement: a list of tables {layers = "0-7", placement = …}.
template <class Reader>
std::vector<LayerPlacement> read_layer_placements(Reader& model) {
  std::vector<LayerPlacement> all;
  for (Reader& reader : model.tables("layer_placement", "a list of tables {layers = \"0-7\", placement = ...}")) {
    std::string layers;
    if (!reader.read("layers", layers)) reader.fail("layers", "a range such as \"0-7\", or one layer");
    const std::size_t dash = layers.find('-');
    const auto first = parse_integer(std::string_view(layers).substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_integer(std::string_view(layers).substr(dash + 1));
    if (!first || !last || *last < *first) reader.fail("layers", "\"FIRST-LAST\" with layers from 0, or one layer");
    LayerPlacement one{.first = static_cast<int>(*first), .last = static_cast<int>(*last)};
    if (reader.find("placement") != nullptr) one.placement = read_part(reader, "placement", false);
    const auto word = [&](const char* key, auto& field, const auto& names) {
      using Value = typename std::remove_cvref_t<decltype(field)>::value_type;
      std::string value;
      if (reader.read(key, value)) field = static_cast<Value>(index_of(reader, key, value, names));
    };
    word("qk_norm", one.qk_norm, qk_norm_names);
    word("inner_norm", one.inner_norm, inner_norm_names);
    word("attention_gate", one.attention_gate, attention_gate_names);
    reader.read("v_norm", one.v_norm);
    reader.finish();
    if (!one.placement && !one.qk_norm && !one.inner_norm && !one.attention_gate && !one.v_norm) {
      reader.fail("layers", "at least one of placement, qk_norm, v_norm, inner_norm, attention_gate for these layers");
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace periscope
