#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace periscope::app {

/// A flag of a command as `--help` shows it.
struct ShownFlag {
  std::string name, value, meaning;
  bool operator==(const ShownFlag&) const = default;
};

/// A command that runs something: one that has no commands below it.
struct ShownCommand {
  std::string name, about;
  std::vector<ShownFlag> flags;
};

/// Returns them all, by name.
std::vector<ShownCommand> shown_commands(const CLI::App& app);

}  // namespace periscope::app
