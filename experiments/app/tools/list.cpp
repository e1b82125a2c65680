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

/// Returns placements (T1's table), presets, recipes, configuration keys with their defaults, devices, ops, and
/// examples of studies and other commands, each as a list of objects.
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

/// What a flag of `list` prints instead of the lists.
struct Answer {
  const char *flag, *about;
  std::function<std::string(const CLI::App&)> text;
  std::function<ordered_json()> json;  ///< none: the answer is text alone
};

const std::vector<Answer>& answers() {
  static const std::vector<Answer> all{
      {"--columns", "Instead: the columns of every kind of result, their units and meaning",
       [](const CLI::App&) { return text_of(listed_columns()); },
       [] {
         return ordered_json{{"results", results_json()}};
       }},
      {"--recipes", "Instead: the recipes, one for each family of models, what they set",
       [](const CLI::App&) { return text_of({listed_recipes()}); }, recipes_json},
      {"--blocks", "Instead: what can be done with every placement, norm and gate, and why not",
       [](const CLI::App&) { return blocks_text(); }, blocks_json},
      {"--reference", "Instead: the whole reference as Markdown", reference_markdown, {}},
      {"--completion", "Instead: completion for bash", bash_completion, {}},
  };
  return all;
}

}  // namespace

std::vector<Example> examples() {
  std::vector<Example> all;
  for (const study::Study& one : studies()) all.push_back({one.name, one.example, one.question});
  all.push_back({"info", "info DIR", "the placement and the names of the norms of a checkpoint"});
  all.push_back({"generate", "generate DIR --tokens 1", "continue tokens with a checkpoint, always by the likeliest"});
  all.push_back({"toy", "toy", "the reviews' toy vector, step by step"});
  return all;
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
             "Shapes of the Peri-LN paper's Table 4, whose hidden width and key/value heads follow from the names' "
             "parameter counts, and of Llama 2 70B.",
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

void add_list(CLI::App& app, int& code) {
  const auto asked = std::make_shared<const Answer*>(nullptr);
  CLI::App* command = add_command(
      app, code, "list", "Placements, presets, recipes, every configuration key, experiments", no_run,
      [=, &app](const CommonOptions& options) {
        const Answer* answer = *asked;
        if (options.json) print_json(answer == nullptr ? list_json() : answer->json());
        if (options.quiet || options.json) return ExitCode::ok;
        print_result(answer != nullptr
                         ? answer->text(app)
                         : fmt::format("{}\nDevices: {}\n", text_of(all_lists()), fmt::join(device_names(), ", ")));
        return ExitCode::ok;
      });
  std::vector<CLI::Option*> others;
  for (const Answer& answer : answers()) {
    CLI::Option* option = command->add_flag_callback(
        answer.flag, [=, &answer] { *asked = &answer; }, answer.about);
    for (CLI::Option* other : others) option->excludes(other);
    if (!answer.json) option->excludes("--json")->excludes("--quiet");
    others.push_back(option);
  }
}

}  // namespace periscope::app
