#include "experiments/app/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/export_csv.h"
#include "experiments/app/list.h"
#include "experiments/app/standard_streams.h"
#include "experiments/studies/toy/toy_vector.h"
#include "sim/spec/error.h"
#include "sim/spec/printable.h"

namespace periscope {
namespace {

ExitCode run_toy(const CommonOptions& options) {
  static_cast<void>(options.load());  // refuses what no command takes
  const toy::ToyVector toy = toy::toy_vector();
  if (!options.quiet) print_message(toy_table(toy));
  if (options.json) print_json(toy_json(toy));
  return ExitCode::ok;
}

ExitCode run_list(const CommonOptions& options, bool columns) {
  static_cast<void>(options.load());  // refuses what no command takes
  if (options.json) print_json(columns ? columns_json() : list_json());
  if (!options.quiet && !options.json) print_result(columns ? columns_text() : list_text());
  return ExitCode::ok;
}

void add_export(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("export", "Write a result file's variables as text");
  const auto file = std::make_shared<std::string>();
  const auto csv = std::make_shared<std::string>();
  command->add_option("file", *file, "A NetCDF result file")->required();
  command->add_option("--csv", *csv, "CSV file to write, - for stdout")->required();
  const auto force = std::make_shared<bool>(false);
  command->add_flag("--force", *force, "Overwrite a file that is no CSV");
  command->callback([=, &code] { code = static_cast<int>(export_csv(*file, *csv, *force)); });
}

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
  propagate::add_commands(app, code);
  converge::add_commands(app, code);
  add_command(app, code, "toy", "The toy vector [2, 0, -2] through Peri-LN and through the reviews' version of it",
              run_toy);
  const auto columns = std::make_shared<bool>(false);
  add_command(app, code, "list", "Placements, presets, every configuration key, experiments",
              [=](const CommonOptions& options) { return run_list(options, *columns); })
      ->add_flag("--columns", *columns, "Instead: the columns of every kind of result, their units and meaning");

  gradients::add_commands(app, code);
  verify::add_commands(app, code);
  checkpoint::add_commands(app, code);
  probe::add_commands(app, code);
  certify::add_commands(app, code);
  soundness::add_commands(app, code);
  power::add_commands(app, code);
  ladder::add_commands(app, code);
  formats::add_commands(app, code);
  train::add_commands(app, code);
  reproduce::add_commands(app, code);
  add_export(app, code);
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
      return fmt::format("periscope: {}{}: expected one of {}; nearest is {}{}", path, shortened(word),
                         fmt::join(names, ", "), path, nearest(word, names));
    }
    at = at->get_subcommand(word);
    path += word + " ";
  }
  return "";
}

}  // namespace periscope
