#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/numerics/number_format.h"

namespace periscope::config {

/// The format that a flag is given by name, among number_formats and `others`. Throws ConfigError, which names the flag
/// and lists the formats.
NumberFormat parse_format(const std::string& word, std::string_view flag = "--format",
                          std::span<const NumberFormat> others = {});

}  // namespace periscope::config
