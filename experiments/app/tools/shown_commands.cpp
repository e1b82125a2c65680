#include "experiments/app/tools/shown_commands.h"

#include <fmt/format.h>

#include <algorithm>

namespace periscope::app {
namespace {

ShownFlag flag_of(const CLI::Option& option) {
  ShownFlag flag{.name = option.get_name(option.get_positional(), true),
                 .value = option.get_items_expected_max() == 0 ? "" : option.get_type_name(),
                 .meaning = option.get_description()};
  std::replace(flag.name.begin(), flag.name.end(), ',', ' ');
  if (!option.get_default_str().empty()) flag.meaning += fmt::format(" (default {})", option.get_default_str());
  if (option.get_required()) flag.meaning += " (required)";
  return flag;
}

void add_leaves(const CLI::App& app, const std::string& path, std::vector<ShownCommand>& leaves) {
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string name = path + below->get_name();
    if (!below->get_subcommands([](const CLI::App*) { return true; }).empty()) {
      add_leaves(*below, name + " ", leaves);
      continue;
    }
    ShownCommand leaf{.name = name, .about = below->get_description(), .flags = {}};
    for (const CLI::Option* option : below->get_options()) {
      if (option != below->get_help_ptr()) leaf.flags.push_back(flag_of(*option));
    }
    leaves.push_back(std::move(leaf));
  }
}

}  // namespace

std::vector<ShownCommand> shown_commands(const CLI::App& app) {
  std::vector<ShownCommand> commands;
  add_leaves(app, "", commands);
  std::ranges::sort(commands, {}, &ShownCommand::name);
  return commands;
}

}  // namespace periscope::app
