#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/app/tools/list.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/studies/describe.h"

namespace periscope::app {
namespace {

using nlohmann::ordered_json;

/// A list of `list_json` and the fields that its table shows.
struct Listed {
  const char *key, *title, *note;
  std::vector<std::string> fields;
};

const std::vector<Listed>& lists() {
  static const std::vector<Listed> all{
      {"placements",
       "Placements",
       "x+ = C(alpha x + beta B(f(s A(x)))): a norm before the module (A), after it (B), or after the sum (C). A "
       "placement is a name, a table, placement = {A = true, B = false, C = false, alpha = \"2L\", beta = 1.0} with "
       "scales in L and l, or one for each kind of module: placement = {attention = \"peri\", mlp = \"pre\"}. "
       "residual-dual was called residual, which is still accepted.",
       {"name", "norms", "scales", "final_norm", "used_by"}},
      {"presets",
       "Presets",
       "Shapes of the Peri-LN paper's Table 4; hidden width and key/value heads follow from the names' parameter "
       "counts.",
       {"name", "layers", "width", "heads", "kv_heads", "head_dim", "mlp_width"}},
      {"recipes",
       "Recipes",
       "model.recipe sets these keys of [model], [init] and [input]; keys that are given override it. std and residual "
       "are keys of [init]. second_moment is the second moment of embeddings drawn with std, or with init.std if that "
       "is given. beyond: properties of the family that no key describes.",
       {"name", "placement", "qk_norm", "norm", "norm_eps", "mlp", "rope", "causal", "embedding_norm", "final_norm",
        "std", "second_moment", "residual", "beyond"}},
      {"keys", "Configuration keys", "In a TOML file, or by --set KEY=VALUE.", {"name", "default", "unit", "meaning"}},
      {"ops", "Ops of a device", "", {"name", "dtype", "accumulation", "shapes", "formula"}},
      {"experiments", "Experiments", "", {"command", "question"}}};
  return all;
}

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

std::vector<std::string> cells(const ordered_json& row, const std::vector<std::string>& fields) {
  std::vector<std::string> all;
  for (const std::string& field : fields) all.push_back(cell(row, field));
  return all;
}

std::string text_of_rows(const ordered_json& rows, const std::vector<std::string>& fields) {
  dataset::TextTable table(fields);
  for (const ordered_json& row : rows) table.add(cells(row, fields));
  return table.text(2);
}

/// The first field is code, as all that a user types.
std::string markdown_of_rows(const ordered_json& rows, const std::vector<std::string>& fields) {
  std::vector<std::vector<std::string>> all;
  for (const ordered_json& row : rows) {
    all.push_back(cells(row, fields));
    all.back().front() = markdown_code(all.back().front());
  }
  return markdown_table(fields, all);
}

const std::vector<std::string> column_fields{"name", "meaning", "dimensions", "type", "units"};

}  // namespace

std::string list_text(bool recipes) {
  const ordered_json all = list_json();
  std::string text;
  for (const Listed& list : lists()) {
    if (recipes && list.key != std::string_view("recipes")) continue;
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", list.title);
    for (const std::string& line : dataset::broken(list.note, dataset::table_width)) {
      if (!line.empty()) text += line + "\n";
    }
    text += text_of_rows(all.at(list.key), list.fields);
  }
  if (!recipes) text += "\nDevices: " + cell(all, "devices") + "\n";
  return text;
}

std::string list_markdown() {
  const ordered_json all = list_json();
  std::string text;
  for (const Listed& list : lists()) {
    text += fmt::format("\n## {}\n{}", list.title, *list.note == '\0' ? "" : fmt::format("\n{}\n", list.note));
    text += markdown_of_rows(all.at(list.key), list.fields);
  }
  return text;
}

std::string columns_text() {
  std::string text;
  const ordered_json all = results_json();
  for (const auto& [kind, result] : all.items()) {
    text += fmt::format("{}Result {}, version {}\n", text.empty() ? "" : "\n", kind, result.at("version").dump());
    text += text_of_rows(result.at("columns"), column_fields);
  }
  return text;
}

std::string columns_markdown() {
  std::string text;
  const ordered_json all = results_json();
  for (const auto& [kind, result] : all.items()) {
    text += fmt::format("\n### Result {}\n\nVersion {}.\n", kind, result.at("version").dump());
    text += markdown_of_rows(result.at("columns"), column_fields);
  }
  return text;
}

}  // namespace periscope::app
