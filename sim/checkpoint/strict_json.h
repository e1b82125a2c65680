#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "sim/files/mapped_file.h"

namespace periscope {

/// Parses one JSON value (RFC 8259). Also rejects text that readers interpret differently: repeated keys in an object,
/// a byte-order mark, zero bytes (at which the library stops), numbers that overflow double, and nesting deeper than
/// 128. Throws InputError, "malformed: PATH: NAME …", where `name` names the text, such as "the header".
[[nodiscard]] nlohmann::json parse_strict_json(std::span<const std::byte> text, const std::string& path,
                                               const std::string& name);

/// Parses a file of at most 100 MB. Also throws InputError if the file cannot be read.
[[nodiscard]] nlohmann::json read_strict_json(const MappedFile& file);
[[nodiscard]] inline nlohmann::json read_strict_json(const std::string& path) {
  return read_strict_json(MappedFile(path));
}

}  // namespace periscope
