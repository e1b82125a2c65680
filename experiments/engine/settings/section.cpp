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
std::string read_placement_name(TomlReader& reader) {
  std::string name(unnamed_placement);
  if (!reader.read("name", name)) return name;
  const bool is_ascii = std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
  const bool fits = is_ascii && !name.empty() && name.size() <= 40 && name.front() != ' ' && name.back() != ' ';
  if (!fits || name == unnamed_placement || find_placement(name)) {
    reader.fail("name",
                "a name of 1 to 40 printable ASCII characters, without a space at either end, that no placement has "
                "yet");
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

/// Returns true if a placement sets the rules of sublayers and the norms at the stack's ends alone, so that a part of a
/// stack can have it.
bool sets_rules_alone(const Placement& placement) {
  const PlacementDefaults& d = placement.defaults;
  return placement.wiring == Wiring::sequential && placement.branch_init_gain == nullptr && d.norm == NormKind::rms &&
         d.qk_norm == QkNorm::none && !d.v_norm && d.inner_norm == InnerNorm::none;
}

bool is_by_kind(const Json& table) { return table.contains("attention") || table.contains("mlp"); }

/// Returns the placement at `key` for some modules or layers of a stack.
Placement read_part(TomlReader& reader, std::string_view key, bool of_module) {
  Placement part = read_placement(reader, key, of_module);
  if (sets_rules_alone(part)) return part;
  std::vector<std::string_view> names;
  for (const Placement& p : placement_table()) {
    if (sets_rules_alone(p)) names.push_back(p.name);
  }
  reader.fail(key, fmt::format("a table {{A, B, C, alpha, beta}} or one of {}, as {} changes more of the stack",
                               fmt::join(names, ", "), part.name));
}

Placement read_free_form(TomlReader reader) {
  FreeForm form;
  if (is_by_kind(*reader.values())) {
    form.attention = std::make_shared<const Placement>(read_part(reader, "attention", true));
    form.mlp = std::make_shared<const Placement>(read_part(reader, "mlp", true));
  } else {
    for (const auto& [key, flag] :
         {std::pair{"A", &SublayerRule::norm_a}, {"B", &SublayerRule::norm_b}, {"C", &SublayerRule::norm_c}}) {
      reader.read(key, form.rule.*flag);
    }
    read_scale(reader, "alpha", form.rule.alpha, form.alpha);
    read_scale(reader, "beta", form.rule.beta, form.beta);
  }
  const std::string name = read_placement_name(reader);
  reader.finish();
  return free_placement(std::move(form), name);
}

}  // namespace

Json placement_json(const Placement& placement) {
  if (!placement.is_custom()) return placement.name;
  const FreeForm& form = *placement.custom;
  if (form.attention != nullptr) {
    return {{"attention", placement_json(*form.attention)}, {"mlp", placement_json(*form.mlp)}};
  }
  Json json = section_json(placement_section, form.rule);
  if (form.alpha) json["alpha"] = form.alpha->text();
  if (form.beta) json["beta"] = form.beta->text();
  return json;
}

Json layer_placements_json(const ModelSpec& model) {
  Json all = Json::array();
  for (const LayerPlacement& range : model.layer_placements) {
    Json one{{"layers", fmt::format("{}-{}", range.first, range.last)}};
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

Placement read_placement(TomlReader& reader, std::string_view key, bool of_module) {
  const Json* value = reader.find(key);
  if (value != nullptr && value->is_string()) {
    const auto word = value->get<std::string>();
    if (const std::optional<Placement> known = find_placement(word)) return *known;
    return placement_table()[reader.index_of(key, word, placement_table(), &Placement::name)];
  }
  if (value == nullptr || !value->is_object() || (is_by_kind(*value) && of_module)) {
    reader.fail(key,
                fmt::format("a name, or a table {{A, B, C, alpha, beta}}{}", of_module ? "" : " or {attention, mlp}"));
  }
  return read_free_form(reader.table(key));
}

std::vector<LayerPlacement> read_layer_placements(TomlReader& model) {
  std::vector<LayerPlacement> all;
  for (TomlReader& reader : model.tables("layer_placement", "a list of tables {layers = \"0-7\", placement = ...}")) {
    std::string layers;
    if (!reader.read("layers", layers)) reader.fail("layers", "a range as \"0-7\", or one layer");
    const std::size_t dash = layers.find('-');
    const auto first = parse_whole_number(std::string_view(layers).substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_whole_number(std::string_view(layers).substr(dash + 1));
    if (!first || !last || *last < *first) reader.fail("layers", "\"FIRST-LAST\", layers from 0, or one layer");
    LayerPlacement one{.first = static_cast<int>(*first), .last = static_cast<int>(*last)};
    if (reader.find("placement") != nullptr) one.placement = read_part(reader, "placement", false);
    const auto word = [&](const char* key, auto& field, const auto& names) {
      using Value = typename std::remove_cvref_t<decltype(field)>::value_type;
      if (std::string value; reader.read(key, value)) field = static_cast<Value>(reader.index_of(key, value, names));
    };
    word("qk_norm", one.qk_norm, qk_norm_names);
    word("inner_norm", one.inner_norm, inner_norm_names);
    word("attention_gate", one.attention_gate, attention_gate_names);
    reader.read("v_norm", one.v_norm);
    reader.finish();
    if (reader.values()->size() == 1) {
      reader.fail("layers", "placement, qk_norm, v_norm, inner_norm or attention_gate of these layers too");
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace periscope::config
