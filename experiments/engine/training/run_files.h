#pragma once

#include <string>

namespace periscope::training {

/// Throws ConfigError if the folder that `flag` names is, or is in, what will be the result file `name`.nc in `out`.
void check_apart(const char* flag, const std::string& folder, const std::string& out, const std::string& name);

/// Throws ConfigError if one of the folders of --dump and --export is in the other, or is the other.
void check_not_nested(const std::string& dump, const std::string& models);

}  // namespace periscope::training
