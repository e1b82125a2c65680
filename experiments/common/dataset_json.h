#pragma once

#include <nlohmann/json.hpp>

#include "experiments/common/netcdf_file.h"

namespace periscope {

/// Every variable of a dataset by name, as arrays nested in the order of its dimensions. Numbers that are not
/// finite become null.
nlohmann::ordered_json variables_json(const NetcdfDataset& data);

}  // namespace periscope
