#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "experiments/app/tools/list.h"
#include "experiments/app/tools/shown_commands.h"
#include "experiments/studies/studies.h"
#include "sim/spec/model_spec.h"

namespace periscope::app {
namespace {

/// Text as a cell of a Markdown table, in which | ends a cell and <word> would be HTML.
std::string markdown_cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

/// Text as code, in which nothing but | has to be escaped; nothing for no text.
std::string markdown_code(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped.empty() ? "" : "`" + escaped + "`";
}

std::string markdown_row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string markdown_head(const std::vector<std::string>& names) {
  return "\n" + markdown_row(names) + markdown_row(std::vector<std::string>(names.size(), "---"));
}

std::string flag_rows(const std::vector<ShownFlag>& flags) {
  if (flags.empty()) return "";
  std::string text = markdown_head({"flag", "value", "meaning"});
  for (const ShownFlag& flag : flags)
    text += markdown_row({markdown_code(flag.name), markdown_cell(flag.value), markdown_cell(flag.meaning)});
  return text;
}

/// The flags that at least half of the commands have with the same meaning, in the order of their first appearance.
std::vector<ShownFlag> common_flags(const std::vector<ShownCommand>& commands) {
  std::vector<ShownFlag> common;
  for (const ShownCommand& command : commands) {
    for (const ShownFlag& flag : command.flags) {
      const auto has = [&](const ShownCommand& other) { return std::ranges::count(other.flags, flag) != 0; };
      if (std::ranges::count(common, flag) == 0 &&
          2 * std::ranges::count_if(commands, has) >= static_cast<std::ptrdiff_t>(commands.size())) {
        common.push_back(flag);
      }
    }
  }
  return common;
}

std::string commands_text(const CLI::App& app) {
  const std::vector<ShownCommand> commands = shown_commands(app);
  const std::vector<ShownFlag> common = common_flags(commands);
  std::string text = "\n## Commands\n\n### Flags of many commands\n" + flag_rows(common);
  const std::vector<Example> shown = examples();
  for (const ShownCommand& command : commands) {
    text += fmt::format("\n### periscope {}\n\n{}{}\n", command.name, markdown_cell(command.about),
                        command.about.ends_with('?') || command.about.ends_with('.') ? "" : ".");
    const auto example = std::ranges::find(shown, command.name, &Example::name);
    if (example != shown.end()) text += fmt::format("\nExample: `periscope {}`\n", example->command);
    std::vector<std::string> taken;
    std::vector<ShownFlag> own;
    for (const ShownFlag& flag : command.flags) {
      if (std::ranges::count(common, flag) != 0) {
        taken.push_back(markdown_code(flag.name));
      } else {
        own.push_back(flag);
      }
    }
    if (!taken.empty()) text += fmt::format("\nTakes {}.\n", fmt::join(taken, ", "));
    text += flag_rows(own);
    const auto study = std::ranges::find(studies(), command.name, &study::Study::name);
    if (study == studies().end()) continue;
    if (study->schema != nullptr) text += fmt::format("\nResult: [{0}](#result-{0}).\n", study->schema->kind());
  }
  return text;
}

/// Columns that differ in the ending of their names alone, and in what their meanings say behind a colon.
struct ColumnGroup {
  dataset::ColumnSpec first;
  std::string stem, meaning;  ///< what the names and what the meanings have in common
  std::vector<std::string> endings;
};

/// Splits a meaning at its first colon: "variance of the stream: mean over seeds" into "variance of the stream" and
/// "mean over seeds". The second part is "" without a colon.
std::pair<std::string, std::string> split_meaning(const std::string& meaning) {
  const std::size_t colon = meaning.find(": ");
  if (colon == std::string::npos) return {meaning, ""};
  return {meaning.substr(0, colon), meaning.substr(colon + 2)};
}

/// The name up to the last underline before which it agrees with `other`.
std::string common_stem(const std::string& name, const std::string& other) {
  const auto differ = std::ranges::mismatch(name, other).in1;
  const std::size_t underline = std::string(name.begin(), differ).rfind('_');
  return underline == std::string::npos ? "" : name.substr(0, underline);
}

/// Puts consecutive columns into groups, and what the endings mean into `endings`: one meaning for each.
std::vector<ColumnGroup> groups_of(const dataset::Schema& schema, std::map<std::string, std::string>& endings) {
  std::vector<ColumnGroup> groups;
  for (const dataset::ColumnSpec& column : schema.columns()) {
    const std::pair<std::string, std::string> meaning = split_meaning(column.meaning);
    const std::string& common = meaning.first;
    const std::string& own = meaning.second;
    const auto joins = [&](ColumnGroup& group) {
      if (own.empty() || split_meaning(group.first.meaning).first != common ||
          group.first.dimensions != column.dimensions || group.first.type != column.type ||
          group.first.units != column.units) {
        return false;
      }
      const std::string stem = group.stem.empty() ? common_stem(group.first.name, column.name) : group.stem;
      if (stem.empty() || !column.name.starts_with(stem + "_")) return false;
      const std::string first_ending = group.first.name.substr(stem.size() + 1);
      const std::string ending = column.name.substr(stem.size() + 1);
      const std::string first_own = split_meaning(group.first.meaning).second;
      if (first_own.empty() || endings.emplace(first_ending, first_own).first->second != first_own ||
          endings.emplace(ending, own).first->second != own) {
        return false;
      }
      group.stem = stem;
      group.meaning = common;
      group.endings.push_back(ending);
      return true;
    };
    if (groups.empty() || !joins(groups.back()))
      groups.push_back({.first = column, .stem = {}, .meaning = column.meaning, .endings = {}});
  }
  return groups;
}

std::string columns_of(const dataset::Schema& schema) {
  std::string text = fmt::format("\n### Result {}\n\nVersion {}.\n", schema.kind(), schema.version());
  std::map<std::string, std::string> endings;
  text += markdown_head({"column", "dimensions", "type", "units", "in JSON", "meaning"});
  for (const ColumnGroup& group : groups_of(schema, endings)) {
    std::string names = markdown_code(group.first.name);
    for (const std::string& ending : group.endings) names += " " + markdown_code("…_" + ending);
    text += markdown_row({names, markdown_cell(group.first.dimensions), std::string(name_of(group.first.type)),
                          group.first.units, markdown_code(dataset::place_text(group.first)),
                          markdown_cell(group.meaning)});
  }
  if (!endings.empty()) text += markdown_head({"ending of a name", "meaning"});
  for (const auto& [ending, meaning] : endings)
    text += markdown_row({markdown_code("_" + ending), markdown_cell(meaning)});
  return text;
}

std::string placements_text() {
  std::string text =
      "\n## Placements\n\nx⁺ = C(αx + βB(f(sA(x)))): a norm in front of the module (A), behind it (B), or behind the "
      "sum (C).\n";
  text += markdown_head({"name", "norms", "scales", "final norm", "used by"});
  for (const Placement& p : placement_table()) {
    text += markdown_row({markdown_code(p.name), markdown_cell(p.norms), markdown_cell(p.scales),
                          p.defaults.final_norm ? "yes" : "no", markdown_cell(p.used_by)});
  }
  text +=
      "\n## Presets\n\nShapes of the Peri-LN paper's Table 4; hidden width and key/value heads follow from the names' "
      "parameter counts.\n";
  text += markdown_head({"name", "layers", "width", "heads", "kv_heads", "head_dim", "mlp_width"});
  for (const Preset& p : presets) {
    text +=
        markdown_row({std::string(p.name), std::to_string(p.layers), std::to_string(p.width), std::to_string(p.heads),
                      std::to_string(p.kv_heads), std::to_string(p.head_dim), std::to_string(p.mlp_width)});
  }
  return text;
}

std::string keys_text() {
  std::string text = "\n## Configuration keys\n\nIn a TOML file, or by `--set KEY=VALUE`.\n";
  for (const config::AnySection& section : sections()) {
    text += fmt::format("\n### [{}]\n", section.name);
    text += markdown_head({"key", "default", "unit", "meaning"});
    for (const config::KeyText& key : section.keys) {
      text += markdown_row(
          {markdown_code(key.name), markdown_code(key.standard), markdown_cell(key.unit), markdown_cell(key.meaning)});
    }
  }
  return text;
}

}  // namespace

std::string reference_markdown(const CLI::App& app) {
  std::string text =
      "# Reference\n\nPrinted by `periscope list --reference`: commands and flags, exit codes, placements, presets, "
      "configuration keys, and the columns of every result.\n";
  text += commands_text(app);
  text += fmt::format("\n## Exit codes\n\n```text\n{}\n```\n", app.get_footer());
  text += placements_text() + keys_text();
  text +=
      "\n## Columns of results\n\nThe name is that of the variable in NetCDF and of the column in CSV; the place is "
      "that in `--json`. "
      "`[…]` is an element of a list, `<…>` a key that is the dimension's label. `…_x` is the name before it with "
      "another ending.\n";
  for (const dataset::Schema* schema : result_schemas()) text += columns_of(*schema);
  return text;
}

}  // namespace periscope::app
