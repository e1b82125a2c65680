#pragma once

#include <string>
#include <string_view>

#include "experiments/engine/result/dataset.h"

namespace periscope::dataset {

/// Returns the dict of xarray.Dataset.from_dict: "attrs", "dims", "coords", "data_vars". A variable has "dims", "attrs"
/// (units, long_name), "dtype" (float64, int64, bool, str) and "data" (nested lists). Floats that are not finite become
/// the strings "NaN", "Infinity" and "-Infinity"; missing integers and flags are null.
nlohmann::ordered_json json_of(const Dataset& data);

/// Returns attributes and circumstances as strings and numbers; objects and lists are serialized as JSON.
Attributes attributes_of(const Dataset& data);

/// First characters of every CSV file.
inline constexpr std::string_view csv_start = "variable";

/// Returns a dataset as CSV (RFC 4180) in long form: one row per value of every column except coordinates. The fields
/// are the column's name ("variable"), one field per dimension, and the value. A dimension's field is its coordinate,
/// or the index if there is no coordinate; it is empty if the column does not have the dimension.
std::string csv_text(const Dataset& data);

}  // namespace periscope::dataset
