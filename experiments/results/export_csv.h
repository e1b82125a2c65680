#pragma once

#include <string>

#include "sim/spec/error.h"

namespace periscope {

/// Writes every variable of a result file as rows variable, one column per dimension of the file (its
/// coordinate value, empty where the variable does not have it), value. `csv` is "-" for stdout, a
/// file to replace, or what is written into instead: a FIFO, a device, /dev/stdout. Throws InputError for a file that
/// is not NetCDF, ConfigError for a `csv` that is a folder or `file` itself.
ExitCode export_csv(const std::string& file, const std::string& csv);

}  // namespace periscope
