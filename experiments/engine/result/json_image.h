#pragma once

#include <nlohmann/json_fwd.hpp>

#include "experiments/engine/result/schema.h"

namespace periscope::dataset {

/// The columns as JSON, each at its place. An element of a list says where it stands: it has the coordinates of the
/// list's dimensions. The other coordinates are under "coordinates". Left out are text that is not there and what is
/// not there at a label, and columns in which nothing was put; another number that is not there, or not finite, is
/// null.
nlohmann::ordered_json json_image(const Schema& schema, const Dataset& data);

/// Facts as JSON: {"commit": …, "config": {…}}.
nlohmann::ordered_json json_image(const Facts& facts);

}  // namespace periscope::dataset
