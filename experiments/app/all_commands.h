#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace periscope::app {

/// Adds every study and every other command to `app`. A command that runs sets `code`, the process's exit code.
void add_commands(CLI::App& app, int& code);

/// What to say where the command line names a command that there is not, with the nearest; else "".
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace periscope::app
