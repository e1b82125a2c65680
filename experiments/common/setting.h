#pragma once

#include <string>
#include <string_view>

namespace periscope {

/// Keys have at most three parts, as agreement.power_limit.variance. A TOML parser makes a table of every part, and
/// they are freed by recursion: 100 000 of them overflow the stack.
inline constexpr int most_key_parts = 16;

/// The key of "a.b=value". Throws ConfigError for text that is no setting. `flag` is for messages.
std::string key_of_setting(const std::string& setting, std::string_view flag);

}  // namespace periscope
