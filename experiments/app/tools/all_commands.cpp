#include <string>
#include <vector>

#include "experiments/app/run_study.h"
#include "experiments/app/tools/tools.h"
#include "experiments/studies/studies.h"

namespace periscope::app {
namespace {

/// For lists of commands: main answers it.
void add_help(CLI::App& app) {
  app.add_subcommand("help", "The flags of a command, as its --help")
      ->add_option_function<std::vector<std::string>>(
          "command", [](const std::vector<std::string>& /*words*/) {},
          "The command, as in `periscope help propagate`; none: all of them");
}

/// An empty value is a variable of a shell that was not set, not the wish for a default.
void refuse_empty_values(CLI::App& app) {
  const CLI::Validator not_empty(
      [](const std::string& word) { return word.empty() ? "expected a value, found \"\"" : ""; }, "");
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_min() > 0) option->check(not_empty);
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  for (const study::Study& one : studies()) add_study(app, code, one);
  add_checkpoint_tools(app, code);
  add_regauge(app, code);
  add_generate(app, code);
  add_toy(app, code);
  add_list(app, code);
  add_cite(app, code);
  add_help(app);
  refuse_empty_values(app);
}

}  // namespace periscope::app
