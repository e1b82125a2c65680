#pragma once

#include <span>
#include <string>
#include <string_view>

namespace periscope {

/// The member of `names` with the smallest edit distance to `word`: what a misspelt name may have meant.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> names);

}  // namespace periscope
