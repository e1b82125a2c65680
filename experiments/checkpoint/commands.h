#pragma once

#include <CLI/App.hpp>

namespace periscope {

/// Adds info and write-checkpoint.
void add_checkpoint_commands(CLI::App& app, int& code);

}  // namespace periscope
