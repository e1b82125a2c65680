#include "experiments/app/command_line_faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  return mapped(commands, [](const CLI::App* command) { return command->get_name(); });
}

/// The commands from `app` on that take the flag: "gradients depth".
void collect_takers(const CLI::App& app, const std::string& flag, const std::string& path,
                    std::vector<std::string>& takers) {
  for (const CLI::App* command : commands_of(app)) {
    const std::string name = path + command->get_name();
    if (command->get_option_no_throw(flag) != nullptr) takers.push_back(name);
    collect_takers(*command, flag, name + " ", takers);
  }
}

/// Returns the flags of a command. Those that are as long as `flag` come first, because `nearest` prefers the first of
/// equally near ones.
std::vector<std::string> flags_of(const CLI::App& command, const std::string& flag) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  std::stable_partition(flags.begin(), flags.end(),
                        [&](const std::string& name) { return name.size() == flag.size(); });
  return flags;
}

}  // namespace

std::string unknown_word(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string path;
  for (const std::string& word : words) {
    if (word == "--") break;
    const std::vector<const CLI::App*> commands = commands_of(*at);
    if (!word.starts_with("-")) {
      if (commands.empty()) continue;  // a value, or a word that the command takes
      const std::vector<std::string> names = names_of(commands);
      const auto found = std::ranges::find(names, word);
      if (found == names.end()) {
        return fmt::format("periscope: {}{}: expected one of {}; nearest is {}{}", path, shortened(word),
                           fmt::join(names, ", "), path, nearest(word, names));
      }
      at = commands[static_cast<std::size_t>(found - names.begin())];
      path += word + " ";
      continue;
    }
    const std::string flag = word.substr(0, word.find('='));
    if (!flag.starts_with("--") || at->get_option_no_throw(flag) != nullptr) continue;
    std::vector<std::string> takers;
    collect_takers(app, flag, "", takers);
    if (!takers.empty()) {
      return fmt::format("periscope: {}{} does nothing here; it acts in {}", path, flag, fmt::join(takers, ", "));
    }
    return fmt::format("periscope: {}{}: there is no such flag; nearest is {}", path, shortened(flag),
                       nearest(flag, flags_of(*at, flag)));
  }
  return "";
}

}  // namespace periscope::app
