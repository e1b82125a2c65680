#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>
#include <variant>

#include "sim/base/printable.h"
#include "sim/checkpoint/families/families.h"
#include "sim/model/parameters.h"
#include "sim/spec/stack_keys.h"

namespace periscope {
namespace {

/// A key of [model] out of the object of the same name.
template <class S>
void read_key(ConfigReader& config, const Key<S>& key, S& values) {
  std::visit(
      [&](const auto& field) {
        using F = std::remove_cvref_t<decltype(field)>;
        if constexpr (std::is_same_v<F, int S::*>) {
          values.*field = config.integer_or(key.name, values.*field, static_cast<int>(key.range.high),
                                            static_cast<int>(key.range.low));
        } else if constexpr (std::is_same_v<F, double S::*>) {
          values.*field = config.number_or(key.name, values.*field);
        } else if constexpr (std::is_same_v<F, bool S::*>) {
          values.*field = config.flag_or(key.name, values.*field);
        } else if constexpr (std::is_same_v<F, WordField<S>>) {
          const std::string word = config.text_or(key.name, field.get(values));
          if (std::ranges::find(field.names, word) == field.names.end()) {
            throw config.unsupported_value(key.name, fmt::format("one of {}", fmt::join(field.names, ", ")));
          }
          field.set(values, word);
        }
      },
      key.field);
}

/// alpha or beta: a number, or an expression.
void read_scale(ConfigReader& table, std::string_view key, double& number, std::optional<DepthExpression>& expression) {
  if (!table.holds_text(key)) {
    number = table.number_or(key, number);
    return;
  }
  expression = DepthExpression::parse(table.text(key));
  if (!expression) throw table.malformed_value(key, "a number, or an expression in L and l");
}

Placement read_placement(ConfigReader& model, std::string_view key = "placement") {
  if (!model.holds_object(key)) {
    const std::optional<Placement> known = find_placement(model.text(key));
    if (!known) throw model.unsupported_value(key, "the name of a placement, or a table {A, B, C, alpha, beta}");
    return *known;
  }
  ConfigReader table = model.object(key);
  FreeForm form;
  if (table.has("attention")) {
    form.attention = std::make_shared<const Placement>(read_placement(table, "attention"));
    form.mlp = std::make_shared<const Placement>(read_placement(table, "mlp"));
    for (const auto& part : {form.attention, form.mlp}) {
      if (part->wiring != Wiring::sequential) throw model.unsupported_value(key, "placements of one stream and branch");
    }
  } else {
    form.rule.norm_a = table.flag_or("A", false);
    form.rule.norm_b = table.flag_or("B", false);
    form.rule.norm_c = table.flag_or("C", false);
    read_scale(table, "alpha", form.rule.alpha, form.alpha);
    read_scale(table, "beta", form.rule.beta, form.beta);
  }
  const std::string name = table.has("name") ? table.text("name") : std::string(unnamed_placement);
  if (name.empty() || name.size() > 40 || printable(name) != name) {
    throw table.malformed_value("name", "1 to 40 printable characters");
  }
  table.finish();
  return free_placement(std::move(form), name);
}

std::vector<LayerPlacement> read_layer_placements(ConfigReader& model, int layers) {
  std::vector<LayerPlacement> all;
  if (!model.has("layer_placement")) return all;
  for (ConfigReader& table : model.objects("layer_placement")) {
    const std::string range = table.text("layers");
    LayerPlacement one;
    char dash = 0;
    std::istringstream text(range);
    if (!(text >> one.first >> dash >> one.last) || dash != '-' || one.first < 0 || one.last < one.first ||
        one.last >= layers) {
      throw table.malformed_value("layers", fmt::format("\"FIRST-LAST\" of 0 to {}", layers - 1));
    }
    if (table.has("placement")) one.placement = read_placement(table);
    if (one.placement && one.placement->wiring != Wiring::sequential) {
      throw table.unsupported_value("placement", "a placement of one stream and branch");
    }
    const auto word = [&](const char* key, auto& field, const auto& names) {
      using Value = typename std::remove_cvref_t<decltype(field)>::value_type;
      if (!table.has(key)) return;
      const auto found = std::ranges::find(names, table.text(key));
      if (found == names.end()) throw table.unsupported_value(key, "a known word");
      field = static_cast<Value>(found - names.begin());
    };
    word("qk_norm", one.qk_norm, qk_norm_names);
    word("inner_norm", one.inner_norm, inner_norm_names);
    word("attention_gate", one.attention_gate, attention_gate_names);
    if (table.has("v_norm")) one.v_norm = table.flag_or("v_norm", false);
    table.finish();
    all.push_back(std::move(one));
  }
  return all;
}

/// Reads the checkpoint that `train` writes of a stack that no other family computes: the tables [model], [init],
/// [input] and [train] of the configuration, and parameters by the names that name_of gives them (as in `propagate
/// --dump`).
FamilyStack read_own(ConfigReader& config, const TensorNames& names) {
  config.harmless({"model_type", "init", "input", "train"});
  ConfigReader model = config.object("model");
  model.harmless({"recipe"});
  FamilyStack stack;
  ModelSpec& m = stack.model;
  (void)read_layers(model, "layers");
  for (const Key<ModelSpec>& key : model_section.keys) read_key(model, key, m);
  m.placement = read_placement(model);
  m.layer_placements = read_layer_placements(model, m.layers);
  model.finish();
  if (static_cast<std::int64_t>(m.heads) * m.head_dim > most_wide) {
    throw model.malformed_value("head_dim", fmt::format("at most {} with all heads", most_wide));
  }
  m.unembedding = m.unembedding && names.contains("unembedding.weight");
  const StackSpec tokens = token_stack(m);
  for (const ParameterId& id : matrices_of(tokens)) stack.map.set(id.layer(), id.weight, whole(name_of(id)));
  for (const ParameterId& id : gains_of(m)) {
    const NormFacts& facts = facts_of(kind_of(m, id.weight));
    StoredNorm norm{whole(name_of(id)), {}};
    if (facts.has_bias) norm.bias = whole(name_of(bias_of(id)));
    if (facts.has_alpha()) norm.alpha = whole(name_of(alpha_of(id)));
    stack.map.set_norm(id.sublayer, id.weight, norm);
  }
  return stack;
}

}  // namespace

Family own_family() {
  return {.name = "periscope",
          .architectures = {},
          .body = "",
          .anchor = "embedding.weight",
          .read = read_own,
          .write = nullptr};
}

}  // namespace periscope
