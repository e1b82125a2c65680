#include "experiments/core/config/placement_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "experiments/core/config/section.h"
#include "sim/base/printable.h"
#include "sim/spec/stack_keys.h"

namespace periscope::config {
namespace {

constexpr const char* forms = "a name, a table {name, A, B, C, alpha, beta} or {attention, mlp}, or a list of these";

std::vector<std::string_view> placement_names() {
  std::vector<std::string_view> names;
  for (const Placement& p : placement_table()) names.push_back(p.name);
  return names;
}

/// The name of a free form: what results call it, so not what they call something else.
std::string read_placement_name(TomlReader& reader, const toml::node& node) {
  std::string name(unnamed_placement);
  if (!reader.read("name", name)) return name;
  const bool blank = name.find_first_not_of(' ') == std::string::npos;
  const bool fits = !blank && name.size() <= 40 && printable(name) == name;
  if (!fits || name == unnamed_placement || find_placement(name)) {
    reader.fail("name", node, "a name of 1 to 40 printable characters that no placement has yet");
  }
  return name;
}

/// A scale: a number, or an expression in L and l.
void read_scale(TomlReader& reader, const toml::table& table, std::string_view key, double& number,
                std::optional<DepthExpression>& expression) {
  const toml::node* node = table.get(key);
  if (node == nullptr || !node->is_string()) {
    reader.read(key, number);
    return;
  }
  reader.find(key);
  expression = DepthExpression::parse(*node->value<std::string>());
  if (!expression) {
    reader.fail(key, *node,
                "a number, or an expression in L (layers) and l (additions before), as \"2L\" or \"1/sqrt(l+1)\"");
  }
}

/// A placement of one kind of module, or of some layers: without streams or branches of its own.
Placement read_part(TomlReader& reader, std::string_view key, const toml::node& node, const std::string& file) {
  Placement part = read_placement(reader, node, file);
  if (part.wiring != Wiring::sequential || part.branch_init_gain != nullptr) {
    reader.fail(key, node, "a placement of one stream and one branch at a time that draws weights like all others");
  }
  const PlacementDefaults& d = part.defaults;
  if (d.norm != NormKind::rms || d.qk_norm != QkNorm::none || d.v_norm || d.inner_norm != InnerNorm::none) {
    reader.fail(key, node, "a placement without norms inside modules or of a kind of its own, which are other keys");
  }
  return part;
}

Placement read_free_form(const toml::table& table, const toml::node& node, const std::string& file) {
  TomlReader reader(&table, std::string(placement_section.name), file);
  FreeForm form;
  const toml::node* attention = reader.find("attention");
  const toml::node* mlp = reader.find("mlp");
  if (attention != nullptr || mlp != nullptr) {
    if (attention == nullptr || mlp == nullptr) {
      const char* there = attention != nullptr ? "attention" : "mlp";
      reader.fail(there, attention != nullptr ? *attention : *mlp, "attention and mlp, a placement for each");
    }
    form.attention = std::make_shared<const Placement>(read_part(reader, "attention", *attention, file));
    form.mlp = std::make_shared<const Placement>(read_part(reader, "mlp", *mlp, file));
  } else {
    for (const auto& [key, flag] :
         {std::pair{"A", &SublayerRule::norm_a}, {"B", &SublayerRule::norm_b}, {"C", &SublayerRule::norm_c}}) {
      reader.read(key, form.rule.*flag);
    }
    read_scale(reader, table, "alpha", form.rule.alpha, form.alpha);
    read_scale(reader, table, "beta", form.rule.beta, form.beta);
  }
  const std::string name = read_placement_name(reader, node);
  reader.finish();
  return free_placement(std::move(form), name);
}

std::optional<int> whole(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

Placement read_placement(TomlReader& model, const toml::node& node, const std::string& file) {
  if (const auto* word = node.as_string()) {
    if (const std::optional<Placement> known = find_placement(word->get())) return *known;
    return placement_table()[model.index_of("placement", word->get(), placement_names())];
  }
  const toml::table* table = node.as_table();
  if (table == nullptr) model.fail("placement", node, forms);
  return read_free_form(*table, node, file);
}

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
    const std::optional<int> first = whole(std::string_view(layers).substr(0, dash));
    const std::optional<int> last =
        dash == std::string::npos ? first : whole(std::string_view(layers).substr(dash + 1));
    if (!first || !last || *last < *first)
      reader.fail("layers", *table->get("layers"), "\"FIRST-LAST\", layers from 0, or one layer");
    LayerPlacement one{.first = *first, .last = *last};
    if (const toml::node* placement = reader.find("placement")) {
      one.placement = read_part(reader, "placement", *placement, file);
    }
    const auto word = [&](const char* key, auto& field, const auto& names) {
      using Value = typename std::remove_cvref_t<decltype(field)>::value_type;
      if (std::string value; reader.read(key, value)) field = static_cast<Value>(reader.index_of(key, value, names));
    };
    word("qk_norm", one.qk_norm, qk_norm_names);
    word("inner_norm", one.inner_norm, inner_norm_names);
    word("attention_gate", one.attention_gate, attention_gate_names);
    if (bool value = false; reader.read("v_norm", value)) one.v_norm = value;
    reader.finish();
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace periscope::config
