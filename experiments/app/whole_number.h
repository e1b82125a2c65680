#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace periscope::app {

/// For flags that take a whole number from 1 to `most`: CLI11's own check writes its limits with 300 digits.
CLI::Validator positive_up_to(std::int64_t most = std::numeric_limits<int>::max());

/// For flags that take a whole number from `least` to `most`.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);

}  // namespace periscope::app
