#pragma once

#include <string>

#include "experiments/engine/result/dataset.h"

namespace periscope::app {

/// A dataset as a NetCDF-4 file: whole numbers as int64, flags as bytes of 0 and 1, both with a _FillValue for what is
/// not there. Makes the file in memory and writes it as write_file does: `path` is whole, or as it was. Returns the
/// SHA-256 of its bytes. Throws as OutputFile does.
std::string write_netcdf(const std::string& path, const dataset::Dataset& data);

}  // namespace periscope::app
