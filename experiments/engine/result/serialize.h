#pragma once

#include <string>
#include <string_view>

#include "experiments/engine/result/dataset.h"

namespace periscope::dataset {

/// Returns a result in the form that xarray.Dataset.from_dict reads: "attrs", "dims", "coords", "data_vars". A variable
/// has "dims", "attrs" (units, long_name), "dtype" (float64, int64, bool, str) and "data", nested lists. Floats that
/// JSON has no number for are "NaN", "Infinity" and "-Infinity"; missing integers and flags are null.
nlohmann::ordered_json json_of(const Dataset& data);

/// Returns the attributes of a result's images, text and numbers: its facts and its circumstances if it has any;
/// objects and lists are JSON text.
Attributes attributes_of(const Dataset& data);

/// The first characters of every file made by csv_text.
inline constexpr std::string_view csv_start = "variable";

/// A dataset as CSV (RFC 4180), a row for every value of every column but coordinates: the column's name ("variable"),
/// a field for every dimension of the dataset (the coordinate's value there, or the position where there is no
/// coordinate, and nothing where the column is not on the dimension), and the value.
std::string csv_text(const Dataset& data);

}  // namespace periscope::dataset
