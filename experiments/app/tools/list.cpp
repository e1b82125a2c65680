#include "experiments/app/tools/list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/tools/tools.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/studies/describe.h"
#include "experiments/studies/studies.h"
#include "sim/backends.h"
#include "sim/core/op.h"
#include "sim/spec/model_spec.h"

namespace periscope::app {

using nlohmann::ordered_json;

namespace {

/// Returns placements, presets, recipes, configuration keys with their defaults, devices, ops, and examples of studies
/// and other commands, each as a list of objects.
ordered_json list_json() {
  ordered_json json;
  json["placements"] = placements_json();
  for (const Preset& p : presets) {
    json["presets"].push_back({{"name", p.name},
                               {"layers", p.layers},
                               {"width", p.width},
                               {"heads", p.heads},
                               {"kv_heads", p.kv_heads},
                               {"head_dim", p.head_dim},
                               {"mlp_width", p.mlp_width}});
  }
  json["recipes"] = recipes_json();
  for (const ordered_json& section : sections_json()) {
    for (const ordered_json& key : section.at("keys")) json["keys"].push_back(key);
  }
  for (const std::string_view name : device_names()) json["devices"].push_back(name);
  for (const OpFacts& op : op_table) {
    json["ops"].push_back({{"name", op.name},
                           {"dtype", output_type_names[static_cast<std::size_t>(op.output)]},
                           {"accumulation", accumulation_names[static_cast<std::size_t>(op.accumulation)]},
                           {"formula", op.formula},
                           {"shapes", op.shapes}});
  }
  for (const Example& e : examples()) {
    json["experiments"].push_back({{"name", e.name}, {"command", e.command}, {"question", e.question}});
  }
  return json;
}

/// Returns a field of `row`, or of its object `sets`, as text.
std::string cell(const ordered_json& row, const std::string& field) {
  const ordered_json& object = row.contains(field) || !row.contains("sets") ? row : row.at("sets");
  const auto found = object.find(field);
  if (found == object.end()) return "";
  if (found->is_boolean()) return *found ? "yes" : "no";
  if (found->is_array())
    return fmt::format("{}", fmt::join(found->get<std::vector<std::string>>(), field == "extras" ? "; " : ", "));
  return found->is_string() ? found->get<std::string>() : found->dump();
}

ListTable list_table(std::string title, std::string note, const ordered_json& rows, std::vector<std::string> fields) {
  ListTable list{.title = std::move(title), .note = std::move(note), .fields = std::move(fields), .rows = {}};
  for (const ordered_json& row : rows) {
    std::vector<std::string>& cells = list.rows.emplace_back();
    for (const std::string& field : list.fields) cells.push_back(cell(row, field));
  }
  return list;
}

ListTable recipe_table() {
  return list_table("Recipes",
                    "model.recipe sets these keys of [model], [init] and [input]; explicit keys override them. std and "
                    "residual are keys of [init]. second_moment: second moment of embeddings drawn with std, or with "
                    "init.std if that key is set. extras: properties of the family that no key describes.",
                    recipes_json(),
                    {"name", "placement", "qk_norm", "norm", "norm_eps", "mlp", "rope", "causal", "embedding_norm",
                     "final_norm", "std", "second_moment", "residual", "extras"});
}

std::string text_of(const std::vector<ListTable>& lists) {
  std::string text;
  for (const ListTable& list : lists) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", list.title);
    if (!list.note.empty()) {
      text += fmt::format("{}\n", fmt::join(dataset::wrap_line(list.note, dataset::table_width), "\n"));
    }
    dataset::TextTable table(list.fields);
    for (const std::vector<std::string>& row : list.rows) table.add(row);
    text += table.text(2);
  }
  return text;
}

/// Output that a flag of `list` selects instead of the tables.
struct Output {
  const char *flag, *description;
  std::function<std::string(const CLI::App&)> text;
  std::function<ordered_json()> json;  ///< empty: text only
};

const std::vector<Output>& outputs() {
  static const std::vector<Output> all{
      {"--columns", "Print the columns of every kind of result, with units and meanings",
       [](const CLI::App&) { return text_of(column_tables()); },
       [] {
         return ordered_json{{"results", results_json()}};
       }},
      {"--recipes", "Print the recipes, one per family of models, with the keys that they set",
       [](const CLI::App&) { return text_of({recipe_table()}); }, recipes_json},
      {"--blocks", "Print which analyses support each placement, norm and gate, and why the others do not",
       [](const CLI::App&) { return blocks_text(); }, blocks_json},
      {"--reference", "Print the whole reference as Markdown", reference_markdown, {}},
      {"--completion", "Print a completion script for bash", bash_completion, {}},
  };
  return all;
}

}  // namespace

std::vector<Example> examples() {
  std::vector<Example> all;
  for (const study::Study& one : studies()) all.push_back({one.name, one.example, one.question});
  all.push_back({"info", "info DIR", "placement and norm names of a checkpoint"});
  all.push_back({"generate", "generate DIR --tokens 1",
                 "continue a prompt with a checkpoint, always with the most likely token"});
  all.push_back({"sweep plan",
                 "sweep plan propagate --grid 'model.layers=[2,4]' --set model.width=128 --out results/grid",
                 "cells and cost of a grid of configurations"});
  all.push_back({"toy", "toy", "the toy example from the reviews of the Peri-LN paper, step by step"});
  return all;
}

std::vector<ListTable> list_tables() {
  const ordered_json all = list_json();
  return {
      list_table(
          "Placements",
          "x+ = C(alpha x + beta B(f(s A(x)))): a norm before the module (A), after it (B), or after the sum (C). A "
          "placement is a name; a table, placement = {A = true, B = false, C = false, alpha = \"2L\", beta = 1.0}, "
          "with scales that may depend on L and l; or one placement per kind of module, placement = {attention = "
          "\"peri\", mlp = \"pre\"}. residual, the former name of residual-dual, is still accepted.",
          all.at("placements"), {"name", "norms", "scales", "final_norm", "used_by"}),
      list_table("Presets",
                 "Shapes of the Peri-LN paper's Table 4 and of Llama 2 70B. The paper states neither the hidden width "
                 "nor the number of key/value heads; they follow from the parameter counts in the names.",
                 all.at("presets"), {"name", "layers", "width", "heads", "kv_heads", "head_dim", "mlp_width"}),
      recipe_table(),
      list_table("Configuration keys", "Set in a TOML file or with --set KEY=VALUE.", all.at("keys"),
                 {"name", "default", "unit", "meaning"}),
      list_table("Ops of a device", "", all.at("ops"), {"name", "dtype", "accumulation", "shapes", "formula"}),
      list_table("Experiments", "", all.at("experiments"), {"command", "question"}),
  };
}

std::vector<ListTable> column_tables() {
  std::vector<ListTable> all;
  const ordered_json results = results_json();
  for (const auto& [kind, result] : results.items()) {
    all.push_back(list_table("Result " + kind, fmt::format("Version {}.", result.at("version").dump()),
                             result.at("columns"), {"name", "meaning", "dimensions", "type", "units"}));
  }
  return all;
}

void add_list(CLI::App& app, int& code) {
  const auto selected = std::make_shared<const Output*>(nullptr);
  CLI::App* command = add_command(
      app, code, "list", "List placements, presets, recipes, configuration keys and experiments", no_run,
      [=, &app](const CommonOptions& options) {
        const Output* output = *selected;
        if (options.json) print_json(output == nullptr ? list_json() : output->json());
        if (options.quiet || options.json) return ExitCode::ok;
        print_result(output != nullptr
                         ? output->text(app)
                         : fmt::format("{}\nDevices: {}\n", text_of(list_tables()), fmt::join(device_names(), ", ")));
        return ExitCode::ok;
      });
  std::vector<CLI::Option*> others;
  for (const Output& output : outputs()) {
    CLI::Option* option = command->add_flag_callback(
        output.flag, [=, &output] { *selected = &output; }, output.description);
    for (CLI::Option* other : others) option->excludes(other);
    if (!output.json) option->excludes("--json")->excludes("--quiet");
    others.push_back(option);
  }
}

}  // namespace periscope::app
