#pragma once

#include <string>
#include <string_view>

namespace periscope {

/// What a user gave, for a message of one line: control bytes and bytes that are no UTF-8 escaped as \xNN, and of what
/// is longer than 200 bytes the beginning, with its length in bytes.
std::string shown(std::string_view text);

}  // namespace periscope
