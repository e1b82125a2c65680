#pragma once

#include <string>

#include "experiments/common/columns.h"
#include "experiments/common/options.h"

namespace periscope {

/// What a command does with its result: NAME.nc in the folder `out` unless that is "", JSON on standard output with
/// --json, and the table for people on standard error without --quiet. `json_file`: NAME.json too.
void publish(const std::string& name, const CommonOptions& options, const std::string& out, const Columns& result,
             const std::string& table, bool json_file = false);

}  // namespace periscope
