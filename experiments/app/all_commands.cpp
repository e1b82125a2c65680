#include "experiments/app/all_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/app/run_study.h"
#include "experiments/app/tools/tools.h"
#include "experiments/studies/studies.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

/// An empty value is a variable of a shell that was not set, not the wish for a default.
void refuse_empty_values(CLI::App& app) {
  const CLI::Validator not_empty(
      [](const std::string& word) { return word.empty() ? "expected a value, found \"\"" : ""; }, "");
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_min() > 0) option->check(not_empty);
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) refuse_empty_values(*command);
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  for (const study::Study& one : studies()) add_study(app, code, one);
  add_checkpoint_tools(app, code);
  add_generate(app, code);
  add_toy(app, code);
  add_list(app, code);
  refuse_empty_values(app);
}

std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string path;
  for (const std::string& word : words) {
    std::vector<std::string> names;
    for (const CLI::App* command : at->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(command->get_name());
    }
    if (names.empty() || word.starts_with("-")) return "";
    if (std::ranges::find(names, word) == names.end()) {
      if (at == &app && word == "soundness") {
        return "periscope: unknown command soundness: the attack on certificates is now the program "
               "build/tests/soundness_attack";
      }
      if (at == &app && word == "export") {
        return "periscope: unknown command export: a study writes its result as CSV itself, with --csv FILE";
      }
      return fmt::format("periscope: {}{}: expected one of {}; nearest is {}{}", path, shortened(word),
                         fmt::join(names, ", "), path, nearest(word, names));
    }
    at = at->get_subcommand(word);
    path += word + " ";
  }
  return "";
}

}  // namespace periscope::app
