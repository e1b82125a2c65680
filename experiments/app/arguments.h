#pragma once

#include <string>
#include <vector>

namespace periscope::app {

/// Stores the command line that started this process. Called once, by main.
void set_argv(std::vector<std::string> argv);
/// What set_argv stored.
const std::vector<std::string>& argv();

}  // namespace periscope::app
