#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/checkpoint/safetensors_type.h"

namespace periscope {

/// A tensor inside the bytes of a file: row-major, little-endian, at no particular alignment.
struct SafetensorsView {
  SafetensorsType type = SafetensorsType::f64;
  std::vector<std::int64_t> shape;     ///< empty for a single number; a length may be 0
  std::span<const std::byte> bytes{};  ///< exactly the tensor
};

/// The number of elements.
[[nodiscard]] std::uint64_t count_of(const SafetensorsView& view);

/// The contents of a safetensors file. The views point into the bytes that were parsed.
struct SafetensorsContents {
  std::map<std::string, SafetensorsView> tensors;
  std::map<std::string, std::string> metadata;  ///< of "__metadata__", empty if there is none
};

/// Parses a whole file, a pure function of its bytes: u64 N, N bytes of JSON, data. It refuses all that the official
/// reader refuses (N against the limit of 100 000 000 and the remaining bytes; JSON; types; offsets that leave holes,
/// overlap or end elsewhere than the file; products that overflow; sizes that do not fit shape and type), and also
/// - a key that comes twice at any level (the official reader lets the last one win, others the first);
/// - an unknown field of a tensor, an entry that is no object, a `__metadata__` that is null;
/// - as unsupported, a length of 2^63 or more in the shape of an empty tensor.
/// White space before the opening brace is accepted, as the official reader's code and tests do (its text does not).
/// Throws InputError, "malformed: PATH: …" or "unsupported: PATH: …", with the tensor, what was found and expected.
[[nodiscard]] SafetensorsContents parse_safetensors(std::span<const std::byte> file, const std::string& path);

/// Elements first … first + out.size() - 1 of the tensor, row-major. Every type up to f64 is exact in double; a 64-bit
/// integer that is not is refused. In float, numbers are rounded to nearest; a finite one beyond its range is
/// refused. NaNs and infinities pass. `path` and `name` are for messages.
/// Throws InputError for a type that cannot be read ("unsupported: …") and for a boolean that is neither 0 nor 1
/// ("malformed: …"), std::out_of_range for elements beyond the tensor.
template <class Out>  // double or float
void read_values(const SafetensorsView& view, const std::string& path, const std::string& name, std::uint64_t first,
                 std::span<Out> out);

}  // namespace periscope
