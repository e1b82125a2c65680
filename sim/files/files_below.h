#pragma once

#include <string>
#include <system_error>
#include <vector>

namespace periscope {

/// Returns the paths of all files in a folder and its folders, sorted, and of a file its own path. Sets `error` if
/// there is neither, or if a folder cannot be read; the list is then incomplete.
std::vector<std::string> files_below(const std::string& path, std::error_code& error);

}  // namespace periscope
