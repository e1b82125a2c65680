#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "experiments/app/tools/list.h"
#include "experiments/studies/studies.h"

namespace periscope::app {
namespace {

/// Escapes text for a cell of a Markdown table, where | ends the cell and <word> would be HTML.
std::string markdown_cell(std::string_view text) {
  std::string escaped;
  bool in_code = false;
  for (const char c : text) {
    in_code ^= c == '`';
    if (c == '|' || (!in_code && (c == '<' || c == '*'))) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

/// Returns a Markdown table; the first cell of every row is formatted as code.
std::string markdown_table(const std::vector<std::string>& titles, std::vector<std::vector<std::string>> rows) {
  if (rows.empty()) return "";
  std::string text = fmt::format("\n| {} |\n|{}\n", fmt::join(titles, " | "),
                                 fmt::join(std::vector<std::string>(titles.size(), " --- |"), ""));
  for (std::vector<std::string>& row : rows) {
    if (!row.front().empty()) row.front() = fmt::format("`{}`", row.front());
    std::ranges::transform(row, row.begin(), markdown_cell);
    text += fmt::format("| {} |\n", fmt::join(row, " | "));
  }
  return text;
}

std::string markdown_of(const std::vector<ListTable>& lists, std::string_view heading) {
  std::string text;
  for (const ListTable& list : lists) {
    text += fmt::format("\n{} {}\n", heading, list.title);
    if (!list.note.empty()) text += fmt::format("\n{}\n", list.note);
    text += markdown_table(list.fields, list.rows);
  }
  return text;
}

/// Returns the name, value and meaning of a flag as shown by --help.
std::vector<std::string> flag_row(const CLI::Option& option) {
  std::string name = option.get_name(option.get_positional(), true);
  std::ranges::replace(name, ',', ' ');
  std::string meaning = option.get_description();
  if (!option.get_default_str().empty()) meaning += fmt::format(" (default {})", option.get_default_str());
  if (option.get_required()) meaning += " (required)";
  return {name, option.get_items_expected_max() == 0 ? "" : option.get_type_name(), meaning};
}

/// Adds the section on every command without subcommands to `texts`, keyed by name, such as "gradients depth".
void add_commands_of(const CLI::App& app, const std::string& path, std::map<std::string, std::string>& texts) {
  for (const CLI::App* child : app.get_subcommands({})) add_commands_of(*child, path + " " + child->get_name(), texts);
  if (!app.get_subcommands({}).empty()) return;
  const std::string name = path.substr(1);
  const std::string about = app.get_description();
  std::string& text = texts[name];
  text = fmt::format("\n### periscope {}\n\n{}{}\n", name, markdown_cell(about),
                     about.ends_with('?') || about.ends_with('.') ? "" : ".");
  for (const Example& example : examples()) {
    if (example.name == name) text += fmt::format("\nExample: `periscope {}`\n", example.command);
  }
  std::vector<std::vector<std::string>> flags;
  for (const CLI::Option* option : app.get_options()) {
    if (option != app.get_help_ptr()) flags.push_back(flag_row(*option));
  }
  text += markdown_table({"flag", "value", "meaning"}, flags);
  const auto study = std::ranges::find(studies(), name, &study::Study::name);
  if (study == studies().end() || study->schema == nullptr) return;
  text += fmt::format("\nResult: [{0}](#result-{0}).\n", study->schema->kind());
}

/// Adds the possible next words of every command to `words`: its flags and subcommands.
void add_words_of(const CLI::App& app, const std::string& path, std::map<std::string, std::set<std::string>>& words) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words[path].insert("--" + name);
  }
  for (const CLI::App* child : app.get_subcommands({})) {
    words[path].insert(child->get_name());
    add_words_of(*child, path + " " + child->get_name(), words);
  }
}

}  // namespace

std::string reference_markdown(const CLI::App& app) {
  std::map<std::string, std::string> commands;
  add_commands_of(app, "", commands);
  std::string text =
      "# Reference\n\nPrinted by `periscope list --reference`: commands and flags, exit codes, placements, presets, "
      "recipes, configuration keys, ops, and the columns of every result.\n\n## Commands\n";
  for (const auto& [name, command] : commands) text += command;
  return text + fmt::format("\n## Exit codes\n\n```text\n{}\n```\n", app.get_footer()) +
         markdown_of(list_tables(), "##") +
         "\n## Columns of results\n\nVariables in NetCDF and JSON; in CSV, values of the column `variable`.\n" +
         markdown_of(column_tables(), "###");
}

std::string bash_completion(const CLI::App& app) {
  std::map<std::string, std::set<std::string>> words;  // by command path, such as " gradients depth"
  add_words_of(app, "", words);
  std::string commands;
  std::string completions;
  for (const auto& [path, next] : words) {
    if (!path.empty()) commands += fmt::format("      \"{}\") path+=\" $word\" ;;\n", path);
    completions += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, fmt::join(next, " "));
  }
  return fmt::format(R"(# Completion for bash, printed by `periscope list --completion`.
_periscope() {{
  local path="" words="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
{}    esac
  done
  case "$path" in
{}  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}")
}}
complete -o default -F _periscope periscope
)",
                     commands, completions);
}

}  // namespace periscope::app
