#pragma once

#include <CLI/CLI.hpp>

namespace periscope::app {

/// Adds every study and every other command to `app`. A command that runs sets `code`, the process's exit code.
void add_commands(CLI::App& app, int& code);

}  // namespace periscope::app
