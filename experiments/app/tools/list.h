#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace periscope::app {

/// Example command line of a study or another command, and the question it answers.
struct Example {
  std::string name, command, question;
};
/// Returns the examples of every study, then of the other commands.
std::vector<Example> examples();

/// Returns the unsupported analyses, with reasons, for every placement, kind of norm, and norm or gate inside modules.
nlohmann::ordered_json blocks_json();
std::string blocks_text();

struct ListTable {
  std::string title, note;
  std::vector<std::string> fields;
  std::vector<std::vector<std::string>> rows;
};
/// Returns the tables that `list` prints, except the devices.
std::vector<ListTable> list_tables();
/// Returns one table per kind of result, which lists its columns.
std::vector<ListTable> column_tables();

/// Returns the reference in Markdown: the commands of `app` with their flags, exit codes, the tables of `list`, and the
/// columns of results. The text does not depend on the machine.
std::string reference_markdown(const CLI::App& app);
/// Returns a completion script for bash with the commands and flags of `app`.
std::string bash_completion(const CLI::App& app);

}  // namespace periscope::app
