#include "experiments/app/tools/list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/publish.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/tools/tools.h"
#include "experiments/app/wrapped.h"
#include "experiments/engine/settings/catalogue.h"
#include "experiments/studies/studies.h"
#include "sim/backends.h"
#include "sim/core/op_table.h"
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

std::string list_text() {
  std::string text = "Placements: x+ = C( alpha x + beta B( f( s A(x) ) ) )\n";
  text += fmt::format("  {:<13}  {:<18}  {:<10}  {}\n", "name", "norms", "final norm",
                      "used by; alpha, beta, s where not 1");
  for (const Placement& p : placement_table()) {
    text += fmt::format("  {:<13}  {:<18}  {:<10}  {}{}\n", p.name, p.norms, p.defaults.final_norm ? "yes" : "no",
                        p.used_by, p.scales == "1" ? "" : fmt::format("; {}", p.scales));
  }
  text +=
      "  residual-dual was called residual, which is still accepted\n"
      "  or a table: placement = {A = true, B = false, C = false, alpha = \"2L\", beta = 1.0}, scales in L and l\n"
      "  or one for each kind of module: placement = {attention = \"peri\", mlp = \"pre\"}\n\nPresets (Peri-LN "
      "paper, Table 4; hidden width 4*D and 8 key/value heads are inferred from the names' parameter counts)\n";
  for (const Preset& p : presets) {
    text += fmt::format("  {:<5} layers {}, width {}, heads {}, kv_heads {}, head_dim {}, mlp_width {}\n", p.name,
                        p.layers, p.width, p.heads, p.kv_heads, p.head_dim, p.mlp_width);
  }
  text += "\n" + recipes_text();
  text += "\nConfiguration keys\n";
  for (const config::AnySection& section : sections()) {
    for (const config::KeyText& k : section.keys)
      text += fmt::format("  {:<35}  {:<17}  {}\n", k.name, k.standard, k.meaning);
  }
  text += fmt::format("\nDevices: {}\n", fmt::join(device_names(), ", "));
  text += fmt::format("\nOps of a device, what they compute\n  {:<23}  {:<10}  {:<8}  {}\n", "name", "dtype", "sums in",
                      "shapes");
  for (const OpRow& op : op_table()) {
    text += fmt::format("  {:<23}  {:<10}  {:<8}  {}\n      {}\n", op.name, name_of(op.output),
                        name_of(op.accumulation), op.shapes, op.formula);
  }
  text += "\nExperiments\n";
  for (const Example& e : examples()) text += fmt::format("  periscope {}\n      {}\n", e.command, e.question);
  return wrapped(text);
}

nlohmann::ordered_json list_json() {
  nlohmann::ordered_json json;
  json["placements"] = config::placements_json();
  for (const Preset& p : presets) {
    json["presets"].push_back({{"name", p.name},
                               {"layers", p.layers},
                               {"width", p.width},
                               {"heads", p.heads},
                               {"kv_heads", p.kv_heads},
                               {"head_dim", p.head_dim},
                               {"mlp_width", p.mlp_width}});
  }
  json["recipes"] = config::recipes_json();
  for (const config::AnySection& section : sections()) {
    for (const config::KeyText& k : section.keys) {
      json["keys"].push_back({{"name", k.name}, {"default", k.standard}, {"meaning", k.meaning}, {"type", k.type}});
      if (!k.unit.empty()) json["keys"].back()["unit"] = k.unit;
      if (!k.choices.empty()) json["keys"].back()["choices"] = k.choices;
    }
  }
  for (const std::string_view name : device_names()) json["devices"].push_back(name);
  for (const OpRow& op : op_table()) {
    json["ops"].push_back({{"name", op.name},
                           {"dtype", name_of(op.output)},
                           {"accumulation", name_of(op.accumulation)},
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
    return *columns ? columns_json() : *recipes ? config::recipes_json() : *blocks ? blocks_json() : list_json();
  };
  const auto text = [=] {
    return *columns ? columns_text() : *recipes ? recipes_text() : *blocks ? blocks_text() : list_text();
  };
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
