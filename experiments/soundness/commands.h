#pragma once

#include <CLI/App.hpp>

namespace periscope {

/// Adds soundness.
void add_soundness_command(CLI::App& app, int& code);

}  // namespace periscope
