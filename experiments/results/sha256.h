#pragma once

#include <string>

namespace periscope {

class MappedFile;

/// The SHA-256, in hex, of a text, and of a file's bytes. Throws InputError for a path of no regular file, and for a
/// file that changes meanwhile.
std::string sha256_hex(const std::string& text);
std::string sha256_of(const MappedFile& file);
std::string sha256_of_file(const std::string& path);

}  // namespace periscope
