#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace periscope::testing {

/// Returns a number as 8 bytes, little-endian.
[[nodiscard]] std::string length_bytes(std::uint64_t length);

/// Returns a safetensors file with this header and data.
[[nodiscard]] std::string safetensors_bytes(std::string_view header, std::string_view data = {});

[[nodiscard]] std::span<const std::byte> bytes_of(std::string_view text);

/// A hand-written file.
struct TestFile {
  std::string name;  ///< the defect or unusual property
  std::string bytes;
  std::string expected;  ///< part of the message; empty for files that must be accepted
};

/// Files that parse_safetensors must reject, with one defect each.
[[nodiscard]] std::vector<TestFile> bad_safetensors();

/// Unusual but valid files.
[[nodiscard]] std::vector<TestFile> odd_safetensors();

/// Index files that parse_tensor_index must reject.
[[nodiscard]] std::vector<TestFile> bad_indices();

/// Unusual but valid index files.
[[nodiscard]] std::vector<TestFile> odd_indices();

}  // namespace periscope::testing
