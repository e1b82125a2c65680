#pragma once

#include <CLI/App.hpp>

namespace periscope {

/// Adds every command to `app`. A command that runs sets `code`, the process's exit code.
void add_commands(CLI::App& app, int& code);

}  // namespace periscope
