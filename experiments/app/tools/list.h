#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace periscope::app {

/// A command that shows what a study or another command answers.
struct Example {
  std::string name, command, question;
};
/// Returns the examples of every study, then of the other commands.
std::vector<Example> examples();

/// Returns, for every placement, kind of norm, and norm or gate inside modules, the uses that do not support it, with
/// their reasons.
nlohmann::ordered_json blocks_json();
std::string blocks_text();

/// A table that `list` prints.
struct Listed {
  std::string title, note;
  std::vector<std::string> fields;
  std::vector<std::vector<std::string>> rows;
};
/// Returns the lists that `list` prints, but for the devices.
std::vector<Listed> all_lists();
/// Returns the columns of every kind of result.
std::vector<Listed> listed_columns();

/// Returns the reference in Markdown: the commands of the whole program `app` with their flags, exit codes, the lists,
/// columns of results. It is the same on every machine.
std::string reference_markdown(const CLI::App& app);
/// Returns the completion for bash of the whole program `app`.
std::string bash_completion(const CLI::App& app);

}  // namespace periscope::app
