#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace periscope::dataset {

/// "input placement" as {"input", "placement"}.
std::vector<std::string> words_of(std::string_view text, char separator = ' ');

}  // namespace periscope::dataset
