#pragma once

#include <CLI/App.hpp>

namespace periscope {

/// Adds the command `certify`.
void add_certify_command(CLI::App& app, int& code);

}  // namespace periscope
