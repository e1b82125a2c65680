#pragma once

#include <string>
#include <string_view>

namespace periscope::config {

/// Our keys have at most three parts, as agreement.power_limit.variance. The TOML parser makes a table of every part
/// and frees these tables by recursion, so a key of 100 000 parts would overflow the stack.
inline constexpr int most_key_parts = 16;

/// The key of "a.b=value". Throws ConfigError for text that is no setting. `flag` is for messages.
std::string key_of_setting(const std::string& setting, std::string_view flag);

}  // namespace periscope::config
