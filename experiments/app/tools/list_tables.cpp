#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/app/tools/list.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/studies/describe.h"

namespace periscope::app {
namespace {

using nlohmann::ordered_json;

/// A field of a row, or of the object `sets` in it, as text.
std::string cell(const ordered_json& row, const std::string& field) {
  const ordered_json& from = row.contains(field) || !row.contains("sets") ? row : row.at("sets");
  const auto found = from.find(field);
  if (found == from.end()) return "";
  if (found->is_boolean()) return *found ? "yes" : "no";
  if (found->is_array())
    return fmt::format("{}", fmt::join(found->get<std::vector<std::string>>(), field == "beyond" ? "; " : ", "));
  return found->is_string() ? found->get<std::string>() : found->dump();
}

Listed listed(std::string title, std::string note, const ordered_json& rows, std::vector<std::string> fields) {
  Listed list{.title = std::move(title), .note = std::move(note), .fields = std::move(fields), .rows = {}};
  for (const ordered_json& row : rows) {
    std::vector<std::string>& cells = list.rows.emplace_back();
    for (const std::string& field : list.fields) cells.push_back(cell(row, field));
  }
  return list;
}

}  // namespace

Listed listed_recipes() {
  return listed(
      "Recipes",
      "model.recipe sets these keys of [model], [init] and [input]; keys that are given override it. std and residual "
      "are keys of [init]. second_moment is the second moment of embeddings drawn with std, or with init.std if that "
      "is "
      "given. beyond: properties of the family that no key describes.",
      recipes_json(),
      {"name", "placement", "qk_norm", "norm", "norm_eps", "mlp", "rope", "causal", "embedding_norm", "final_norm",
       "std", "second_moment", "residual", "beyond"});
}

std::vector<Listed> all_lists() {
  const ordered_json all = list_json();
  return {
      listed("Placements",
             "x+ = C(alpha x + beta B(f(s A(x)))): a norm before the module (A), after it (B), or after the sum (C). A "
             "placement is a name, a table, placement = {A = true, B = false, C = false, alpha = \"2L\", beta = 1.0} "
             "with scales in L and l, or one for each kind of module: placement = {attention = \"peri\", mlp = "
             "\"pre\"}. residual-dual was called residual, which is still accepted.",
             all.at("placements"), {"name", "norms", "scales", "final_norm", "used_by"}),
      listed("Presets",
             "Shapes of the Peri-LN paper's Table 4; hidden width and key/value heads follow from the names' parameter "
             "counts.",
             all.at("presets"), {"name", "layers", "width", "heads", "kv_heads", "head_dim", "mlp_width"}),
      listed_recipes(),
      listed("Configuration keys", "In a TOML file, or by --set KEY=VALUE.", all.at("keys"),
             {"name", "default", "unit", "meaning"}),
      listed("Ops of a device", "", all.at("ops"), {"name", "dtype", "accumulation", "shapes", "formula"}),
      listed("Experiments", "", all.at("experiments"), {"command", "question"}),
  };
}

std::vector<Listed> listed_columns() {
  std::vector<Listed> all;
  const ordered_json results = results_json();
  for (const auto& [kind, result] : results.items()) {
    all.push_back(listed("Result " + kind, fmt::format("Version {}.", result.at("version").dump()),
                         result.at("columns"), {"name", "meaning", "dimensions", "type", "units"}));
  }
  return all;
}

std::string text_of(const std::vector<Listed>& lists) {
  std::string text;
  for (const Listed& list : lists) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", list.title);
    if (!list.note.empty()) {
      text += fmt::format("{}\n", fmt::join(dataset::broken(list.note, dataset::table_width), "\n"));
    }
    dataset::TextTable table(list.fields);
    for (const std::vector<std::string>& row : list.rows) table.add(row);
    text += table.text(2);
  }
  return text;
}

}  // namespace periscope::app
