#pragma once

#include <CLI/App.hpp>

namespace periscope {

/// Adds verify.
void add_verify_command(CLI::App& app, int& code);

}  // namespace periscope
