#pragma once

#include <string>

namespace periscope::app {

/// Returns the path of a file of the project, given by its path from the project's folder: in the working directory, or
/// beside the folder that the program was built in, or, a configuration, in share/periscope/configs beside the folder
/// of the installed program. Throws ConfigError if it is in neither.
std::string shipped_file(const std::string& path);

}  // namespace periscope::app
