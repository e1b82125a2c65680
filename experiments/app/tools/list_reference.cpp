#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/app/tools/list.h"
#include "experiments/app/tools/shown_commands.h"
#include "experiments/studies/studies.h"

namespace periscope::app {
namespace {

/// Text as a cell of a Markdown table, in which | ends a cell and <word> would be HTML.
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

std::string markdown_row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string commands_text(const CLI::App& app) {
  std::string text = "\n## Commands\n";
  const std::vector<Example> shown = examples();
  for (const ShownCommand& command : shown_commands(app)) {
    text += fmt::format("\n### periscope {}\n\n{}{}\n", command.name, markdown_cell(command.about),
                        command.about.ends_with('?') || command.about.ends_with('.') ? "" : ".");
    const auto example = std::ranges::find(shown, command.name, &Example::name);
    if (example != shown.end()) text += fmt::format("\nExample: `periscope {}`\n", example->command);
    std::vector<std::vector<std::string>> flags;
    for (const ShownFlag& flag : command.flags) flags.push_back({markdown_code(flag.name), flag.value, flag.meaning});
    text += markdown_table({"flag", "value", "meaning"}, flags);
    const auto study = std::ranges::find(studies(), command.name, &study::Study::name);
    if (study == studies().end() || study->schema == nullptr) continue;
    text += fmt::format("\nResult: [{0}](#result-{0}).\n", study->schema->kind());
  }
  return text;
}

}  // namespace

std::string markdown_code(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); }

std::string markdown_table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::string text = "\n" + markdown_row(titles) + markdown_row(std::vector<std::string>(titles.size(), "---"));
  for (std::vector<std::string> row : rows) {
    std::ranges::transform(row, row.begin(), markdown_cell);
    text += markdown_row(row);
  }
  return text;
}

std::string reference_markdown(const CLI::App& app) {
  return "# Reference\n\nPrinted by `periscope list --reference`: commands and flags, exit codes, placements, presets, "
         "recipes, configuration keys, ops, and the columns of every result.\n" +
         commands_text(app) + fmt::format("\n## Exit codes\n\n```text\n{}\n```\n", app.get_footer()) + list_markdown() +
         "\n## Columns of results\n\nNames of variables in NetCDF and JSON, and in the column `variable` of CSV.\n" +
         columns_markdown();
}

}  // namespace periscope::app
