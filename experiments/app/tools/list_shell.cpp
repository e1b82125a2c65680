#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "experiments/app/tools/list.h"
#include "experiments/app/tools/shown_commands.h"
#include "experiments/engine/settings/build_info.h"

namespace periscope::app {
namespace {

/// Text as roff has it: a hyphen is a minus that can be copied, and no line begins with a request.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool begins_line = escaped.empty() || escaped.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) escaped += "\\&";
    escaped += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return escaped;
}

std::string flag_entry(const ShownFlag& flag) {
  return fmt::format(".TP\n\\fB{}\\fR {}\n{}\n", roff(flag.name), roff(flag.value), roff(flag.meaning));
}

}  // namespace

std::string man_page(const CLI::App& app) {
  std::string text = fmt::format(".TH PERISCOPE 1 \"\" \"Periscope {}\"\n", build_info::version);
  text += ".SH NAME\nperiscope \\- laboratory for the placement of normalization layers\n";
  text += ".SH SYNOPSIS\n\\fBperiscope\\fR \\fICOMMAND\\fR [\\fIFLAGS\\fR]\n";
  text += fmt::format(".SH DESCRIPTION\n{}\n", roff(app.get_description()));
  text += "\\fBperiscope list\\fR prints every configuration key, \\fBperiscope list \\-\\-columns\\fR every column.\n";
  text += ".SH COMMANDS\n";
  const std::vector<Example> shown = examples();
  for (const ShownCommand& command : shown_commands(app)) {
    text += fmt::format(".SS periscope {}\n{}\n", roff(command.name), roff(command.about));
    const auto example = std::ranges::find(shown, command.name, &Example::name);
    if (example != shown.end()) text += fmt::format(".PP\nExample: \\fBperiscope {}\\fR\n", roff(example->command));
    for (const ShownFlag& flag : command.flags) text += flag_entry(flag);
  }
  text += fmt::format(".SH EXIT STATUS\n.nf\n{}\n.fi\n", roff(app.get_footer()));
  text += ".SH ENVIRONMENT\n" +
          flag_entry({.name = "PERISCOPE_INSTRUCTIONS",
                      .value = "",
                      .meaning = "The instruction set of the CPU's ops, as x86-64-v3; otherwise the best there is"});
  return text;
}

std::string bash_completion(const CLI::App& app) {
  std::map<std::string, std::set<std::string>> words;  // by the commands before them, each after a space
  for (const ShownCommand& command : shown_commands(app)) {
    std::istringstream parts(command.name);
    std::string path;
    for (std::string part; parts >> part; path += " " + part) words[path].insert(part);
    words[path].insert("--help");
    for (const ShownFlag& flag : command.flags) {
      std::istringstream names(flag.name);
      for (std::string name; names >> name;) {
        if (name.starts_with("--")) words[path].insert(name);
      }
    }
  }
  words[""].insert({"--help", "--version"});
  std::string text = "# Completion for bash, printed by `periscope list --completion`.\n_periscope() {\n";
  text += "  local path=\"\" words=\"\" word\n  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n";
  text += "    case \"$path $word\" in\n";
  for (const auto& [path, unused] : words) {
    if (!path.empty()) text += fmt::format("      \"{}\") path+=\" $word\" ;;\n", path);
  }
  text += "    esac\n  done\n  case \"$path\" in\n";
  for (const auto& [path, next] : words)
    text += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, fmt::join(next, " "));
  text += "  esac\n  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\")\n}\n";
  return text + "complete -o default -F _periscope periscope\n";
}

}  // namespace periscope::app
