#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/checkpoint/safetensors_type.h"

namespace periscope {

/// A tensor within the bytes of a file: row-major, little-endian, possibly unaligned.
struct SafetensorsView {
  SafetensorsType type = SafetensorsType::f64;
  std::vector<std::int64_t> shape;     ///< empty for a single number; dimensions may be 0
  std::span<const std::byte> bytes{};  ///< the tensor's bytes only
};

[[nodiscard]] std::uint64_t count_of(const SafetensorsView& view);

/// Contents of a safetensors file. Views point into the parsed bytes.
struct SafetensorsContents {
  std::map<std::string, SafetensorsView> tensors;
  std::map<std::string, std::string> metadata;  ///< entries of "__metadata__", if present
};

/// Parses a whole file: u64 N, N bytes of JSON, data. Rejects everything that the official reader rejects: N above 10^8
/// or the remaining bytes; invalid JSON; unknown types; offsets that leave gaps, overlap or do not end with the file;
/// products that overflow; sizes inconsistent with shape and type. Also rejects
/// - a repeated key at any level (the official reader takes the last one, other readers the first);
/// - an unknown field of a tensor, an entry that is not an object, a `__metadata__` that is null;
/// - as unsupported, a dimension of 2^63 or more in the shape of an empty tensor.
/// White space before the opening brace is accepted, as in the official reader. Throws InputError, "malformed: PATH: …"
/// or "unsupported: PATH: …", with the tensor, found and expected value.
[[nodiscard]] SafetensorsContents parse_safetensors(std::span<const std::byte> file, const std::string& path);

/// Converts elements first … first + out.size() - 1 of the tensor, row-major. Rounds to nearest for float; NaNs and
/// infinities are preserved. Throws InputError: "unsupported: …" for a type that cannot be read, a 64-bit integer that
/// double cannot represent, and a finite number beyond the range of float; "malformed: …" for a boolean other than 0
/// and 1. Throws std::out_of_range for elements beyond the tensor. `path` and `name` are for messages.
template <class Out>  // double or float
void read_values(const SafetensorsView& view, const std::string& path, const std::string& name, std::uint64_t first,
                 std::span<Out> out);

}  // namespace periscope
