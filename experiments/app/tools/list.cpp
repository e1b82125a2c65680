#include "experiments/app/tools/list.h"

#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/publish.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/tools/tools.h"
#include "experiments/studies/describe.h"
#include "experiments/studies/studies.h"
#include "sim/backends.h"
#include "sim/core/op.h"
#include "sim/spec/model_spec.h"

namespace periscope::app {
std::vector<Example> examples() {
  std::vector<Example> all;
  for (const study::Study& one : studies()) all.push_back({one.name, one.example, one.question});
  all.push_back({"info", "info DIR", "the placement and the names of the norms of a checkpoint"});
  all.push_back({"generate", "generate DIR --tokens 1", "continue tokens with a checkpoint, always by the likeliest"});
  all.push_back({"toy", "toy", "the reviews' toy vector, step by step"});
  return all;
}

nlohmann::ordered_json list_json() {
  nlohmann::ordered_json json;
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
  for (const nlohmann::ordered_json& section : sections_json()) {
    for (const nlohmann::ordered_json& key : section.at("keys")) json["keys"].push_back(key);
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

void add_list(CLI::App& app, int& code) {
  const auto columns = std::make_shared<bool>(false);
  const auto reference = std::make_shared<bool>(false);
  const auto recipes = std::make_shared<bool>(false);
  const auto blocks = std::make_shared<bool>(false);
  const auto man = std::make_shared<bool>(false);
  const auto completion = std::make_shared<bool>(false);
  const auto json = [=] {
    if (*columns) return nlohmann::ordered_json{{"results", results_json()}};
    return *recipes ? recipes_json() : *blocks ? blocks_json() : list_json();
  };
  const auto text = [=] { return *columns ? columns_text() : *blocks ? blocks_text() : list_text(*recipes); };
  CLI::App* command =
      add_command(app, code, "list", "Placements, presets, recipes, every configuration key, experiments", no_run,
                  [=, &app](const CommonOptions& options) {
                    if (*reference || *man || *completion) {
                      print_result(*reference ? reference_markdown(app) : *man ? man_page(app) : bash_completion(app));
                      return ExitCode::ok;
                    }
                    if (options.json) print_json(json());
                    if (!options.quiet && !options.json) print_result(text());
                    return ExitCode::ok;
                  });
  CLI::Option* of_columns =
      command->add_flag("--columns", *columns, "Instead: the columns of every kind of result, their units and meaning");
  CLI::Option* of_recipes =
      command->add_flag("--recipes", *recipes, "Instead: the recipes, one for each family of models, what they set")
          ->excludes(of_columns);
  CLI::Option* of_blocks =
      command
          ->add_flag("--blocks", *blocks, "Instead: what can be done with every placement, norm and gate, and why not")
          ->excludes(of_columns)
          ->excludes(of_recipes);
  std::vector<CLI::Option*> others{of_columns, of_recipes, of_blocks, command->get_option("--json"),
                                   command->get_option("--quiet")};
  const auto add = [&](const char* name, bool& value, const char* about) {
    CLI::Option* option = command->add_flag(name, value, about);
    for (CLI::Option* other : others) option->excludes(other);
    others.push_back(option);
  };
  add("--reference", *reference, "Instead: the whole reference as Markdown");
  add("--man", *man, "Instead: the manual page");
  add("--completion", *completion, "Instead: completion for bash");
}

}  // namespace periscope::app
