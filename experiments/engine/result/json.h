#pragma once

#include <nlohmann/json_fwd.hpp>

#include "experiments/engine/result/dataset.h"

namespace periscope::dataset {

/// Returns a result in the form that xarray.Dataset.from_dict reads: "attrs", "dims", "coords", "data_vars". A variable
/// has "dims", "attrs" (units, long_name), "dtype" (float64, int64, bool, str) and "data", nested lists. Floats that
/// JSON has no number for are "NaN", "Infinity" and "-Infinity"; missing integers and flags are null.
nlohmann::ordered_json json_of(const Dataset& data);

/// Returns facts as an object; JsonText is parsed.
nlohmann::ordered_json json_of(const Facts& facts);

/// Returns the attributes of a result's images: its facts and, as JSON, its circumstances if it has any.
Facts attributes_of(const Dataset& data);

}  // namespace periscope::dataset
