#pragma once

#include <CLI/App.hpp>
#include <limits>

namespace periscope {

/// For flags that take a whole number from 1 to `most`: CLI11's own check writes its limits with 300 digits.
CLI::Validator positive_up_to(int most = std::numeric_limits<int>::max());

}  // namespace periscope
