#pragma once

#include <string>

#include "experiments/engine/result/dataset.h"

namespace periscope::testing {

/// A file that write_netcdf wrote, as the NetCDF library reads it. Throws std::runtime_error for what it does not.
dataset::Dataset read_netcdf(const std::string& path);

}  // namespace periscope::testing
