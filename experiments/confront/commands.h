#pragma once

#include <CLI/App.hpp>

namespace periscope {

/// Adds `power` and `ladder`.
void add_confront_commands(CLI::App& app, int& code);

}  // namespace periscope
