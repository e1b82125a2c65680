#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace periscope::app {

/// Placements (T1's table), presets, recipes, configuration keys with their defaults, devices, ops, studies and other
/// commands, each as a list of objects.
nlohmann::ordered_json list_json();

/// The lists of `list_json` as tables: as text, all or only the recipes, and as Markdown.
std::string list_text(bool recipes);
std::string list_markdown();

/// The columns of every kind of result (results_json), as text and as Markdown.
std::string columns_text();
std::string columns_markdown();

/// A command that shows what a study or another command answers.
struct Example {
  std::string name, command, question;
};

/// The examples of every study, then of the other commands.
std::vector<Example> examples();

/// The manual's reference in Markdown: the commands of the whole program `app` with their flags, exit codes,
/// the lists, columns of results. It is the same on every machine.
std::string reference_markdown(const CLI::App& app);
/// Returns text as code in a Markdown table: "|" is escaped; "" stays.
std::string markdown_code(std::string_view text);
/// Returns a Markdown table.
std::string markdown_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows);

/// Return the manual page (roff) and the completion for bash of the whole program `app`.
std::string man_page(const CLI::App& app);
std::string bash_completion(const CLI::App& app);

/// Return what can be done with every placement, kind of norm, and norm or gate inside modules; a blank is a refusal
/// with its reason.
std::string blocks_text();
nlohmann::ordered_json blocks_json();

}  // namespace periscope::app
