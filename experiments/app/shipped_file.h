#pragma once

#include <string>

namespace periscope::app {

/// Where a file of the project is, given by its path from the project's folder: in the working directory, or beside the
/// folder that the program was built in. Throws ConfigError if in neither.
std::string shipped_file(const std::string& path);

}  // namespace periscope::app
