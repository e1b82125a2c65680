#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace periscope {

/// model.safetensors.index.json: which file of the folder holds which tensor.
struct TensorIndex {
  std::map<std::string, std::string> weight_map;  ///< tensor -> file name, without any folder
  std::optional<std::uint64_t> total_size;        ///< bytes of all tensors, if the index says so
  std::vector<std::string> warnings;
};

/// Parses the index. Throws InputError, "malformed: PATH: …", for what is not JSON (see parse_strict_json), a
/// weight_map that is missing, empty or maps to anything but strings, and a file name that could lead out of the
/// folder: only plain names are allowed, without '/', '\' and control characters, and not "." or "..";
/// "unsupported: …" for a name that does not end in .safetensors.
[[nodiscard]] TensorIndex parse_tensor_index(std::span<const std::byte> text, const std::string& path);

}  // namespace periscope
