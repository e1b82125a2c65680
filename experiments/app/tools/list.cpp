#include "experiments/app/tools/list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <memory>

#include "experiments/app/command.h"
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

namespace {

/// What a flag of `list` prints instead of the lists.
struct Answer {
  const char *flag, *about;
  std::function<std::string(const CLI::App&)> text;
  std::function<nlohmann::ordered_json()> json;  ///< none: the answer is text alone
};

const std::vector<Answer>& answers() {
  static const std::vector<Answer> all{
      {"--columns", "Instead: the columns of every kind of result, their units and meaning",
       [](const CLI::App&) { return text_of(listed_columns()); },
       [] {
         return nlohmann::ordered_json{{"results", results_json()}};
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

std::string lists_text() {
  return fmt::format("{}\nDevices: {}\n", text_of(all_lists()), fmt::join(device_names(), ", "));
}

}  // namespace

void add_list(CLI::App& app, int& code) {
  const auto asked = std::make_shared<const Answer*>(nullptr);
  CLI::App* command =
      add_command(app, code, "list", "Placements, presets, recipes, every configuration key, experiments", no_run,
                  [=, &app](const CommonOptions& options) {
                    const Answer* answer = *asked;
                    if (options.json) print_json(answer == nullptr ? list_json() : answer->json());
                    if (options.quiet || options.json) return ExitCode::ok;
                    print_result(answer == nullptr ? lists_text() : answer->text(app));
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
