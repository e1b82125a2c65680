#pragma once

#include <CLI/App.hpp>

namespace periscope {

/// Adds the commands that run a checkpoint: probe and generate.
void add_probe_commands(CLI::App& app, int& code);

}  // namespace periscope
