#pragma once

#include <CLI/App.hpp>

namespace periscope {

/// Adds `periscope gradients` with its experiments to `app`. One that runs sets `code`, the process's exit code.
void add_gradient_commands(CLI::App& app, int& code);

}  // namespace periscope
