#pragma once

#include <string>

#include "experiments/app/netcdf_file.h"

namespace periscope::app {

/// Reads a result file, which may come from anywhere. The NetCDF library runs in a child process, with limits on its
/// memory and time that grow with the file, so that what crashes the library is an InputError here; what it says is
/// checked there (netcdf_content.h) and here. Throws InputError, one line that names the file and, where one is at
/// fault, the variable, dimension or attribute, for anything that is no regular file, no NetCDF-4 file, or not such
/// as write_netcdf writes. To be called while this process has one thread only.
dataset::Dataset read_netcdf(const std::string& path);

}  // namespace periscope::app
