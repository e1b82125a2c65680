#pragma once

#include <string>

#include "sim/spec/error.h"

namespace periscope {

/// Writes every variable of a result file as rows variable, one column per dimension of the file (its
/// coordinate value, empty where the variable does not have it), value. `csv` is a path or "-" for stdout.
/// Throws InputError for a file that is not NetCDF.
ExitCode export_csv(const std::string& file, const std::string& csv);

}  // namespace periscope
