#include "experiments/engine/settings/section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "sim/base/whole_number.h"
#include "sim/spec/stack_keys.h"

namespace periscope::config {
namespace {

/// Reads the name of a free form. It identifies the stack in results, so it must differ visibly from all known names:
/// no Cyrillic р, no space at either end.
std::string read_placement_name(TomlReader& reader, const toml::table& table) {
  std::string name(unnamed_placement);
  if (!reader.read("name", name)) return name;
  const bool is_ascii = std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
  const bool fits = is_ascii && !name.empty() && name.size() <= 40 && name.front() != ' ' && name.back() != ' ';
  if (!fits || name == unnamed_placement || find_placement(name)) {
    reader.fail(
        "name", *table.get("name"),
        "a name of 1 to 40 printable ASCII characters, without a space at either end, that no placement has yet");
  }
  return name;
}

/// A scale: a number, or an expression in L and l.
void read_scale(TomlReader& reader, std::string_view key, double& number, std::optional<DepthExpression>& expression) {
  DepthExpression scale = number;
  reader.read(key, scale);
  if (const auto constant = scale.number()) {
    number = *constant;
    require_in({}, reader.name(), key, number);
  } else {
    expression = scale;
  }
}

/// The forms of a placement that a key accepts: model.placement, one of a range of layers, or one of a kind of module.
enum class Forms { all, of_layers, of_modules };

constexpr const char* words_of(Forms forms) {
  switch (forms) {
    case Forms::all: return "a name, a table {name, A, B, C, alpha, beta} or {attention, mlp}, or a list of these";
    case Forms::of_layers: return "a name, or a table {A, B, C, alpha, beta} or {attention, mlp}";
    case Forms::of_modules: return "a name, or a table {A, B, C, alpha, beta}";
  }
  return {};
}

/// Lists what a placement sets for the whole stack in addition to the rules of sublayers; "" if nothing.
std::string set_for_the_stack(const Placement& placement) {
  std::vector<std::string_view> all;
  const PlacementDefaults& d = placement.defaults;
  if (placement.wiring != Wiring::sequential) all.emplace_back("the connections of its modules");
  if (placement.branch_init_gain != nullptr) all.emplace_back("the initialization");
  if (d.norm != NormKind::rms) all.emplace_back("model.norm");
  if (d.qk_norm != QkNorm::none) all.emplace_back("model.qk_norm");
  if (d.v_norm) all.emplace_back("model.v_norm");
  if (d.inner_norm != InnerNorm::none) all.emplace_back("model.inner_norm");
  return fmt::format("{}", fmt::join(all, ", "));
}

bool is_by_kind(const toml::table& table) { return table.contains("attention") || table.contains("mlp"); }

Placement read_any(TomlReader& reader, std::string_view key, Forms forms);

/// Returns the placement at `key` for some modules or layers of a stack.
Placement read_part(TomlReader& reader, std::string_view key, Forms forms) {
  Placement part = read_any(reader, key, forms);
  if (const std::string more = set_for_the_stack(part); !more.empty()) {
    std::vector<std::string_view> names;
    for (const Placement& p : placement_table()) {
      if (set_for_the_stack(p).empty()) names.push_back(p.name);
    }
    reader.fail(key, *reader.find(key),
                fmt::format("a table {{A, B, C, alpha, beta}} or one of {}, as {} also sets {} for the whole stack",
                            fmt::join(names, ", "), part.name, more));
  }
  return part;
}

Placement read_free_form(TomlReader reader, const toml::table& table) {
  FreeForm form;
  if (is_by_kind(table)) {
    for (const char* key : {"attention", "mlp"}) {
      const char* there = table.contains("attention") ? "attention" : "mlp";
      if (!table.contains(key)) reader.fail(there, *table.get(there), "attention and mlp, a placement for each");
    }
    form.attention = std::make_shared<const Placement>(read_part(reader, "attention", Forms::of_modules));
    form.mlp = std::make_shared<const Placement>(read_part(reader, "mlp", Forms::of_modules));
  } else {
    for (const auto& [key, flag] :
         {std::pair{"A", &SublayerRule::norm_a}, {"B", &SublayerRule::norm_b}, {"C", &SublayerRule::norm_c}}) {
      reader.read(key, form.rule.*flag);
    }
    read_scale(reader, "alpha", form.rule.alpha, form.alpha);
    read_scale(reader, "beta", form.rule.beta, form.beta);
  }
  const std::string name = read_placement_name(reader, table);
  reader.finish();
  return free_placement(std::move(form), name);
}

/// Returns the placement at `key`, which is given.
Placement read_any(TomlReader& reader, std::string_view key, Forms forms) {
  const toml::node& node = *reader.find(key);
  if (const auto* word = node.as_string()) {
    if (const std::optional<Placement> known = find_placement(word->get())) return *known;
    return placement_table()[reader.index_of(key, word->get(), placement_table(), &Placement::name)];
  }
  const toml::table* table = node.as_table();
  if (table == nullptr || (is_by_kind(*table) && forms == Forms::of_modules)) reader.fail(key, node, words_of(forms));
  return read_free_form(reader.table(key), *table);
}

}  // namespace

nlohmann::ordered_json placement_json(const Placement& placement) {
  if (!placement.is_custom()) return placement.name;
  const FreeForm& form = *placement.custom;
  if (form.attention != nullptr) {
    return {{"attention", placement_json(*form.attention)}, {"mlp", placement_json(*form.mlp)}};
  }
  nlohmann::ordered_json json = section_json(placement_section, form.rule);
  if (form.alpha) json["alpha"] = form.alpha->text();
  if (form.beta) json["beta"] = form.beta->text();
  return json;
}

nlohmann::ordered_json layer_placements_json(const ModelSpec& model) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const LayerPlacement& range : model.layer_placements) {
    nlohmann::ordered_json one{{"layers", fmt::format("{}-{}", range.first, range.last)}};
    if (range.placement) one["placement"] = placement_json(*range.placement);
    const auto word = [&](const char* key, const auto& value, const auto& names) {
      if (value) one[key] = names[static_cast<std::size_t>(*value)];
    };
    word("qk_norm", range.qk_norm, qk_norm_names);
    if (range.v_norm) one["v_norm"] = *range.v_norm;
    word("inner_norm", range.inner_norm, inner_norm_names);
    word("attention_gate", range.attention_gate, attention_gate_names);
    all.push_back(one);
  }
  return all;
}

std::string toml_text(const nlohmann::ordered_json& value) {
  if (value.is_array()) {
    std::string text;
    for (const auto& entry : value) text += (text.empty() ? "" : ", ") + toml_text(entry);
    return "[" + text + "]";
  }
  std::string text = value.dump();
  if (const std::size_t exponent = text.find("e-0"); value.is_number_float() && exponent != std::string::npos) {
    text.erase(exponent + 2, 1);  // 1e-06
  }
  return text;
}

Placement read_placement(TomlReader& model) { return read_any(model, "placement", Forms::all); }

std::vector<LayerPlacement> read_layer_placements(TomlReader& model, const std::string& file) {
  std::vector<LayerPlacement> all;
  const toml::node* node = model.find("layer_placement");
  if (node == nullptr) return all;
  constexpr const char* expected = "a list of tables {layers = \"0-7\", placement = ...}";
  const toml::array* list = node->as_array();
  if (list == nullptr || list->empty()) model.fail("layer_placement", *node, expected);
  for (const toml::node& entry : *list) {
    const toml::table* table = entry.as_table();
    if (table == nullptr) model.fail("layer_placement", entry, expected);
    TomlReader reader(table, "model.layer_placement", file);
    std::string layers;
    if (!reader.read("layers", layers)) reader.fail("layers", entry, "the layers that it is for, as \"0-7\" or \"3\"");
    const std::size_t dash = layers.find('-');
    const auto first = parse_whole_number(std::string_view(layers).substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_whole_number(std::string_view(layers).substr(dash + 1));
    if (!first || !last || *last < *first)
      reader.fail("layers", *table->get("layers"), "\"FIRST-LAST\", layers from 0, or one layer");
    LayerPlacement one{.first = static_cast<int>(*first), .last = static_cast<int>(*last)};
    if (reader.find("placement") != nullptr) one.placement = read_part(reader, "placement", Forms::of_layers);
    const auto word = [&](const char* key, auto& field, const auto& names) {
      using Value = typename std::remove_cvref_t<decltype(field)>::value_type;
      if (std::string value; reader.read(key, value)) field = static_cast<Value>(reader.index_of(key, value, names));
    };
    word("qk_norm", one.qk_norm, qk_norm_names);
    word("inner_norm", one.inner_norm, inner_norm_names);
    word("attention_gate", one.attention_gate, attention_gate_names);
    if (bool value = false; reader.read("v_norm", value)) one.v_norm = value;
    reader.finish();
    if (table->size() == 1) {
      reader.fail("layers", *table->get("layers"),
                  "placement, qk_norm, v_norm, inner_norm or attention_gate of these layers too");
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace periscope::config
