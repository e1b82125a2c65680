#pragma once

#include <string>

namespace periscope {

/// The SHA-256 of a text, and of the bytes of a regular file. InputError, which begins with `name`, for another path.
std::string sha256_hex(const std::string& text);
std::string sha256_of_file(const std::string& path, const std::string& name = {});

}  // namespace periscope
