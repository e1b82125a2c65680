#pragma once

#include <string>

#include "experiments/engine/result/dataset.h"

namespace periscope::app {

/// Writes a dataset atomically as a NetCDF-4 file: integers as int64, booleans as bytes, both with a _FillValue for
/// missing values. Returns the SHA-256 of its bytes. Throws the errors of OutputFile.
std::string write_netcdf(const std::string& path, const dataset::Dataset& data);

}  // namespace periscope::app
