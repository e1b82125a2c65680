#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace periscope::app {

/// A line that names the first word of a command line that is a command which there is not, with the nearest, or a flag
/// that its command does not take, with the commands that do or else with the nearest. "" if there is none.
std::string unknown_word(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace periscope::app
