#pragma once

#include <string>

#include "sim/numerics/number_format.h"

namespace periscope::config {

/// The format of that name. Throws ConfigError, which lists them.
NumberFormat parse_format(const std::string& word);

}  // namespace periscope::config
