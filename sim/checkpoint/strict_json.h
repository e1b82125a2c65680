#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "sim/files/mapped_file.h"

namespace periscope {

/// Parses one JSON value (RFC 8259). Two readers of one text must not see different values, so this also rejects a
/// repeated key in an object, a byte-order mark, a zero byte (which the library takes for the end), numbers that
/// overflow a double, and nesting deeper than 128. Throws InputError, "malformed: PATH: WHAT …", where `what` names the
/// text, such as "the header".
[[nodiscard]] nlohmann::json parse_strict_json(std::span<const std::byte> text, const std::string& path,
                                               const std::string& what);

/// Parses a whole file of at most 100 MB. Throws InputError also if the file cannot be read.
[[nodiscard]] nlohmann::json read_strict_json(const MappedFile& file);
[[nodiscard]] inline nlohmann::json read_strict_json(const std::string& path) {
  return read_strict_json(MappedFile(path));
}

}  // namespace periscope
