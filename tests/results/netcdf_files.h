#pragma once

#include <functional>
#include <string>

#include "experiments/app/netcdf_file.h"

namespace periscope::testing {

/// A small result with all that a file may have: text and numbers as attributes, coordinates of numbers and of words,
/// a dimension without one, an unlimited one, scalars.
dataset::Dataset small_result();

/// Makes a file with the NetCDF library itself. `content` gets the file's id, in define mode.
void make_netcdf(const std::string& path, const std::function<void(int file)>& content);

}  // namespace periscope::testing
