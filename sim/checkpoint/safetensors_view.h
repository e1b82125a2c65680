#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/checkpoint/safetensors_type.h"

namespace periscope {

/// A tensor in the bytes of a file: row-major, little-endian, unaligned.
struct SafetensorsView {
  SafetensorsType type = SafetensorsType::f64;
  std::vector<std::int64_t> shape;     ///< empty for a single number; a length may be 0
  std::span<const std::byte> bytes{};  ///< exactly the tensor
};

[[nodiscard]] std::uint64_t count_of(const SafetensorsView& view);

/// The contents of a safetensors file. The views point into the bytes that were parsed.
struct SafetensorsContents {
  std::map<std::string, SafetensorsView> tensors;
  std::map<std::string, std::string> metadata;  ///< of "__metadata__", empty if there is none
};

/// Parses a whole file: u64 N, N bytes of JSON, data. Rejects all that the official reader rejects (N above 100 000 000
/// or the remaining bytes; JSON; types; offsets that leave holes, overlap or do not end with the file; products that
/// overflow; sizes that do not fit shape and type), and also
/// - a repeated key at any level (the official reader takes the last one, others the first);
/// - an unknown field of a tensor, an entry that is not an object, a `__metadata__` that is null;
/// - as unsupported, a length of 2^63 or more in the shape of an empty tensor.
/// White space before the opening brace is accepted, as by the official reader. Throws InputError, "malformed: PATH: …"
/// or "unsupported: PATH: …", with the tensor, what was found and expected.
[[nodiscard]] SafetensorsContents parse_safetensors(std::span<const std::byte> file, const std::string& path);

/// Elements first … first + out.size() - 1 of the tensor, row-major. Rounds to nearest in float; NaNs and infinities
/// pass. Throws InputError: "unsupported: …" for a type that cannot be read, a 64-bit integer that is not a double, and
/// a finite number beyond the range of float; "malformed: …" for a boolean that is neither 0 nor 1. Throws
/// std::out_of_range for elements beyond the tensor. `path` and `name` are for messages.
template <class Out>  // double or float
void read_values(const SafetensorsView& view, const std::string& path, const std::string& name, std::uint64_t first,
                 std::span<Out> out);

}  // namespace periscope
