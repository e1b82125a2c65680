#pragma once

#include <string>

#include "experiments/engine/result/dataset.h"

namespace periscope::testing {

/// Reads a file of write_netcdf with the NetCDF library. Throws std::runtime_error on errors.
dataset::Dataset read_netcdf(const std::string& path);

}  // namespace periscope::testing
