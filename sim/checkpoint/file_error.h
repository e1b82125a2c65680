#pragma once

#include <string>
#include <string_view>

#include "sim/spec/error.h"

namespace periscope {

/// "malformed: PATH: WHAT": the file breaks the rules of its own format. To be thrown.
[[nodiscard]] InputError malformed(const std::string& path, const std::string& what);

/// "unsupported: PATH: WHAT": the file may well be valid, but Periscope does not read this. To be thrown.
[[nodiscard]] InputError unsupported(const std::string& path, const std::string& what);

/// A string out of a file, for a message of one line: in quotes, with escapes for all that is not printable
/// ASCII, and shortened if it is long.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace periscope
