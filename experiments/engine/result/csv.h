#pragma once

#include <string>

#include "experiments/engine/result/dataset.h"

namespace periscope::dataset {

/// The first characters of every file made by csv_text.
inline constexpr std::string_view csv_start = "variable";

/// A dataset as CSV (RFC 4180), a row for every value of every column but coordinates: the column's name ("variable"),
/// a field for every dimension of the dataset (the coordinate's value there, or the position where there is no
/// coordinate, and nothing where the column is not on the dimension), and the value.
std::string csv_text(const Dataset& data);

}  // namespace periscope::dataset
