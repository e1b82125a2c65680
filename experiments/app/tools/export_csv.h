#pragma once

#include <string>

#include "sim/base/error.h"

namespace periscope::app {

/// Every variable of a result file as rows of CSV: variable, one column per dimension of the file (its
/// coordinate value, empty where the variable does not have it), value.
/// Throws InputError for a file that read_netcdf refuses, and for one whose CSV would be out of all proportion to it.
std::string csv_of(const std::string& file);

/// Writes csv_of(file) to `csv`: "-" for stdout, which gets no control characters if it is a terminal, a file to
/// replace, or what is written into instead: a FIFO, a device, /dev/stdout. ConfigError for a `csv` that is a folder or
/// `file` itself.
ExitCode export_csv(const std::string& file, const std::string& csv, bool force);

}  // namespace periscope::app
